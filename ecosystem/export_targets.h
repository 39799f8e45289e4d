// Internal to ecosystem/export: the programs that files are written for, and how each trainer's files are put together.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ecosystem/export_parts.h"

namespace gpuplan {

struct Target {
  std::string_view name;
  const char* trainer;  // its table; nullptr: the files hold launcher and engine only
  void (*add)(std::vector<ExportedFile>& files, const ExportJob& job);
  bool needs_zero = false;
  void (*adapt)(Setup& setup, const EstimateRequest& request, const Strategy& strategy) = nullptr;
  WhyNot (*why_not)(const ExportJob& job) = nullptr;
  bool has_launcher = true;     // accelerate's file, or its variables, are written
  bool reads_images = false;    // its trainer loads the images of a row
  bool divides_layers = false;  // its files say tensor and pipeline parallelism
  bool keeps_settings = true;   // those of a file that was read stand in its file too
  bool packs_images = false;    // several rows with images in one sequence
  bool needs_cluster = false;   // its machines are one cluster of Ray, which stands before it is started
  std::string (*note)(const ExportJob& job) = nullptr;  // what to know before the files are used; "": nothing
  /// A scheduler's job, which starts launch.sh of the trainer's files on each machine, or a program in its place;
  /// nullptr: the files are started by hand.
  ExportedFile (*job)(const ExportJob& job, const std::vector<ExportedFile>& files) = nullptr;
};

/// Every target, as --for spells it.
const std::vector<Target>& export_target_rows();

/// By the name that --for gives. A scheduler's has the files of the trainer that a plan of `framework` is of; `carried`
/// names the format of the file that it came from, "" none. Where gpuplan writes no files of that trainer, TRL's.
/// Throws InputError for an unknown name.
Target find_target(std::string_view name, const std::string& framework, std::string_view carried);

/// Processes of torchrun, with accelerate's variables.
void add_torchrun(std::vector<ExportedFile>& files, const ExportJob& job);

}  // namespace gpuplan
