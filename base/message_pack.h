// Values from MessagePack, as nlohmann::json writes it: the parser of a text at every start would take longer than a
// short answer. Three times as fast as json::from_msgpack, which takes any stream byte by byte.
#pragma once

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace gpuplan {

/// The value that to_msgpack() wrote, of the same type. Throws BugError for other bytes: only what the build has
/// packed is read.
nlohmann::json from_message_pack(std::string_view bytes);

}  // namespace gpuplan
