#include "coda/program.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "ir/validate.h"

namespace coda {
namespace {

constexpr std::int64_t kMaxGranule = std::int64_t{1} << 40;

}  // namespace

Program::Program() : data_(std::make_shared<Data>()) {}

Program::Program(Data data) {
  validate(data);
  data_ = std::make_shared<const Data>(std::move(data));
  column_granule();  // refuses periods without a usable common multiple
}

int Program::find_operand(std::string_view name) const {
  const auto& operands = data_->operands;
  const auto found = std::find_if(operands.begin(), operands.end(), [&](const Operand& o) { return o.name == name; });
  return found == operands.end() ? -1 : static_cast<int>(found - operands.begin());
}

int Program::accumulators() const {
  int count = 0;
  for (const Node& node : data_->nodes)
    if (node.kind == NodeKind::Acc) count = std::max(count, node.index + 1);
  return count;
}

std::int64_t Program::column_granule() const {
  std::int64_t granule = 1;
  const auto include = [&](std::int64_t period) {
    if (period <= 0) return;
    granule = std::lcm(granule, period);
    REQUIRE(ValueError, granule <= kMaxGranule, "program '", data_->name,
            "': its heads, spans and periods have no "
            "common multiple below ",
            kMaxGranule, " columns: use widths that divide one another");
  };
  // Columns after which `period` entries and the heads both begin anew; a head has width / 2 entries in the half-width
  // domain.
  const auto columns = [](std::int64_t period, const Pairing& pairing) {
    if (pairing.is_none() || period == 0) return period;
    const std::int64_t entries = pairing.width / 2;
    return std::lcm(period, entries) / entries * pairing.head;
  };
  for (const Operand& operand : data_->operands) {
    include(operand.pairing.head);
    include(columns(operand.period, operand.pairing));
  }
  for (const Node& node : data_->nodes) {
    include(node.pairing.head);
    if (node.kind == NodeKind::SpanReduce) include(node.period);
  }
  return granule;
}

Program with_operand_dtypes(const Program& program, std::span<const DType> dtypes) {
  Program::Data data = program.data();
  INVARIANT(dtypes.size() == data.operands.size(), "with_operand_dtypes: ", dtypes.size(), " dtypes for ",
            data.operands.size(), " operands");
  for (std::size_t i = 0; i < dtypes.size(); ++i) data.operands[i].dtype = dtypes[i];
  return Program(std::move(data));
}

}  // namespace coda
