// Python's objects of the blocks for training: those of coda/training.h with what owns their memory.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bind.h"
#include "blocks.h"

namespace coda::python {

struct SavedStreamObject {
  SavedStream stream;
  Framework framework = Framework::Numpy;

  Execution execution() const { return execution_on(stream.x.view().device()); }
};

/// A gradient by a stream with the owners of the weights it names.
struct StreamGradientObject {
  StreamGradient gradient;
  std::vector<Array> held;
  Framework framework = Framework::Numpy;
};

/// A tensor whose content a gradient takes the place of.
struct FreshObject {
  nb::object tensor;
};

/// A main gradient as Python gives it, a tensor or a Fresh one, with what owns its memory.
class MainObject {
 public:
  MainObject(const nb::object& given, const Place& place) : is_fresh_(nb::isinstance<FreshObject>(given)) {
    const nb::object tensor = is_fresh_ ? nb::cast<const FreshObject&>(given).tensor : given;
    array_ = import_array(tensor, place, Access::Write);
  }

  MainGradient main() const {
    return {array_.view(), is_fresh_ ? MainGradient::Content::Fresh : MainGradient::Content::Kept};
  }

 private:
  bool is_fresh_;
  Array array_;
};

/// The main gradients of a call: a dict of names to tensors they are added to, or Fresh ones, or None.
class Into {
 public:
  Into(std::string_view call, const nb::object& given, std::initializer_list<std::string_view> known) {
    if (given.is_none()) return;
    REQUIRE(TypeError, nb::isinstance<nb::dict>(given), call, ": argument 'into' is a ",
            nb::cast<std::string>(given.type().attr("__name__")), ", expected a dict of names to tensors");
    for (const auto& [key, object] : nb::cast<nb::dict>(given)) {
      const auto name = nb::cast<std::string>(nb::str(key));
      std::string names;
      for (const std::string_view each : known) names += concat(names.empty() ? "" : ", ", each);
      REQUIRE(ValueError, std::find(known.begin(), known.end(), name) != known.end(), call, ": into names '", name,
              "', expected some of ", names);
      held_.emplace(name, MainObject(nb::borrow(object), {call, concat("into '", name, "'")}));
    }
  }

  MainGradient of(const std::string& name) const {
    const auto found = held_.find(name);
    return found == held_.end() ? MainGradient() : found->second.main();
  }

  QkvGradients qkv() const {
    return {of("q"), of("k"), of("v"), of("q_bias"), of("k_bias"), of("v_bias"), of("q_norm"), of("k_norm")};
  }
  MlpGradients mlp() const { return {of("gate"), of("up"), of("gate_bias"), of("up_bias")}; }

 private:
  std::map<std::string, MainObject> held_;
};

}  // namespace coda::python
