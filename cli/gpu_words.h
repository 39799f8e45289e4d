// GPUs among the words of a command: "gpuplan estimate llama3-8b 2 x RTX 4090".
#pragma once

#include <string>
#include <vector>

namespace gpuplan {

/// True for a word that names GPUs, and for one that is written as only GPUs are ("2x4009").
bool means_gpus(const std::string& word);

/// Counts the first words that name GPUs together; 0: they name none.
std::size_t num_gpu_words(const std::vector<std::string>& words);

/// Words that name GPUs together are one: "2", "x", "RTX", "4090" is "2 x RTX 4090". Names of files stay.
std::vector<std::string> join_gpu_words(const std::vector<std::string>& words);

}  // namespace gpuplan
