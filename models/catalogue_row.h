// The fields of a row of `gpuplan models`, which stand in a model's file and in the index of all.
#pragma once

#include "models/catalogue_file.h"
#include "models/families.h"

namespace gpuplan {

/// Reads a row of any archive; its file is not known to it.
template <class Archive>
CatalogueEntry catalogue_row(Archive&& fields, const char* count_key) {
  CatalogueEntry entry{.name = fields.text("name"),
                       .id = fields.text("id"),
                       .family = fields.text("family"),
                       .model_type = fields.text("model_type"),
                       .architecture = fields.text("architecture"),
                       .parameters = fields.integer(count_key, {.least = 1}),
                       .same_shape = fields.texts("same_shape")};
  entry.is_modelled = find_family(entry.model_type, entry.architecture) != nullptr;
  return entry;
}

}  // namespace gpuplan
