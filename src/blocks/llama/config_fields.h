// Typed reading of one JSON object of config.json; errors name the field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace coda {

/// Products of two extents stay inside 64 bits.
inline constexpr std::int64_t kLargestExtent = std::int64_t{1} << 31;

class ConfigFields {
 public:
  /// `prefix` goes before field names in errors: "" or "rope_parameters.".
  explicit ConfigFields(const nlohmann::json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  /// The value, or null when it is absent or null.
  const nlohmann::json* find(const char* field) const;

  /// Errors of all below: ValueError for another JSON type or a number out of range.
  std::optional<std::int64_t> integer(const char* field) const;  ///< from 1 to kLargestExtent
  std::optional<double> number(const char* field) const;         ///< finite
  std::optional<std::string> text(const char* field) const;
  bool flag(const char* field, bool absent) const;

  /// Errors: ValueError when absent.
  std::int64_t required_integer(const char* field) const;
  double required_number(const char* field) const;

 private:
  const nlohmann::json& object_;
  std::string prefix_;
};

}  // namespace coda
