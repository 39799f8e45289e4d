// Writes the archive of data/ that the program carries: pack_data <folder> <file>.
#include <exception>
#include <fstream>
#include <iostream>

#include "base/data_archive.h"

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("pack_data <folder> <file>");
  const std::string archive = gpuplan::pack_data(argv[1]);
  std::ofstream out(argv[2], std::ios::binary);
  out << archive << std::flush;
  if (!out) throw std::runtime_error(std::string(argv[2]) + " could not be written");
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
