// The errors coda raises. Every message is one sentence that names the call, the argument, what was got, what was
// expected and what to do; docs/errors.md lists them and tests/errors/ pins their text.
#pragma once

#include <stdexcept>
#include <string>

namespace coda {

/// Base of every exception coda throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A value, shape, layout or file content that does not fit. Python: ValueError.
class ValueError : public Error {
 public:
  using Error::Error;
};

/// A dtype or kind of argument that does not fit. Python: TypeError.
class TypeError : public Error {
 public:
  using Error::Error;
};

/// An index (a loss target, a token) outside its range. Python: IndexError.
class IndexError : public Error {
 public:
  using Error::Error;
};

/// Something coda does not do, said before anything ran. Python: NotImplementedError.
class NotImplementedError : public Error {
 public:
  using Error::Error;
};

/// A file that could not be opened, read or written. Python: OSError.
class FileError : public Error {
 public:
  using Error::Error;
};

/// A failure of the GPU or its driver. Python: RuntimeError.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// GPU memory that could not be had. Python: MemoryError.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant: a fault in coda, never in the caller. Python: RuntimeError.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace coda
