// A mistake and the exact sentence it gets: the shape of every table in tests/errors/.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <typeinfo>
#include <vector>

#include "coda/error.h"

namespace coda::testing_support {

struct ErrorRow {
  const std::type_info& kind;
  std::string message;
  std::function<void()> mistake;
};

inline void expect_errors(const std::vector<ErrorRow>& rows) {
  for (const ErrorRow& row : rows) {
    SCOPED_TRACE(row.message);
    try {
      row.mistake();
      ADD_FAILURE() << "no error was raised";
    } catch (const Error& error) {
      EXPECT_EQ(row.message, error.what());
      EXPECT_EQ(row.kind, typeid(error)) << "raised another kind of error";
    }
  }
}

}  // namespace coda::testing_support
