// coda's exceptions as the classes of coda_cpp.errors, each of which is also the builtin exception of its name.
#include <exception>

#include "bind.h"
#include "coda/error.h"

namespace coda::python {
namespace {

void raise(const char* name, const Error& error) {
  const nb::object type = nb::module_::import_("coda_cpp.errors").attr(name);
  PyErr_SetString(type.ptr(), error.what());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const ValueError& error) {
    raise("ValueError", error);
  } catch (const TypeError& error) {
    raise("TypeError", error);
  } catch (const IndexError& error) {
    raise("IndexError", error);
  } catch (const NotImplementedError& error) {
    raise("NotImplementedError", error);
  } catch (const FileError& error) {
    raise("FileError", error);
  } catch (const DeviceError& error) {
    raise("DeviceError", error);
  } catch (const OutOfMemoryError& error) {
    raise("OutOfMemoryError", error);
  } catch (const InternalError& error) {
    raise("InternalError", error);
  } catch (const Error& error) {
    raise("Error", error);
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace coda::python
