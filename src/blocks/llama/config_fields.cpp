#include "blocks/llama/config_fields.h"

#include <cmath>

#include "core/check.h"

namespace coda {

using nlohmann::json;

const json* ConfigFields::find(const char* field) const {
  const auto found = object_.find(field);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::int64_t> ConfigFields::integer(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return {};
  const auto number = value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
  REQUIRE(ValueError, 1 <= number && number <= std::uint64_t{kLargestExtent}, "config: ", prefix_, field, " is ",
          value->dump(), ", expected an integer from 1 to ", kLargestExtent);
  return static_cast<std::int64_t>(number);
}

std::optional<double> ConfigFields::number(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return {};
  REQUIRE(ValueError, value->is_number() && std::isfinite(value->get<double>()), "config: ", prefix_, field, " is ",
          value->dump(), ", expected a number");
  return value->get<double>();
}

std::optional<std::string> ConfigFields::text(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return {};
  REQUIRE(ValueError, value->is_string(), "config: ", prefix_, field, " is ", value->dump(), ", expected a text");
  return value->get<std::string>();
}

bool ConfigFields::flag(const char* field, bool absent) const {
  const json* value = find(field);
  if (value == nullptr) return absent;
  REQUIRE(ValueError, value->is_boolean(), "config: ", prefix_, field, " is ", value->dump(),
          ", expected true or false");
  return value->get<bool>();
}

std::int64_t ConfigFields::required_integer(const char* field) const {
  const auto value = integer(field);
  REQUIRE(ValueError, value, "config: ", prefix_, field, " is missing, expected an integer");
  return *value;
}

double ConfigFields::required_number(const char* field) const {
  const auto value = number(field);
  REQUIRE(ValueError, value, "config: ", prefix_, field, " is missing, expected a number");
  return *value;
}

}  // namespace coda
