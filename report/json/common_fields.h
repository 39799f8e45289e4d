// Fields that several answers have.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "cluster/profile/profile.h"
#include "models/model_spec.h"

namespace gpuplan {

/// Null where there is nothing to say.
inline std::optional<std::string> text_or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

/// Null where it is no number.
inline std::optional<double> finite_or_null(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

template <class Archive>
void list_model_name(Archive& f, const ModelSpec& model) {
  f("name", model.name);
  f("id", model.id, "of the Hub, or a path");
}

/// The profile that an answer rests on.
template <class Archive>
void list_profile_used(Archive& f, const Profile& profile) {
  f("id", profile.id);
  f("title", profile.title);
  f("sha256", profile.sha256);
  const MeasuredOn on = profile.measured ? profile.measured->on : MeasuredOn{};
  f.nullable_object("measured", profile.measured != nullptr, [&](auto& inner) {
    inner("device", on.device);
    inner("date", on.date);
  });
}

}  // namespace gpuplan
