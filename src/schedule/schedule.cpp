// Schedules as text, for people, records and kernel names.
#include "coda/schedule.h"

#include <array>
#include <charconv>

#include "core/check.h"

namespace coda {
namespace {

// The text, field by field: words stand as they are, each number goes to (or comes from) one field.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), rest_(text) {}

  void word(std::string_view expected) {
    REQUIRE(ValueError, rest_.starts_with(expected), "parse_schedule: found '", rest_, "' in '", text_, "', expected '",
            expected, "': write it as ", to_text(Schedule{}));
    rest_.remove_prefix(expected.size());
  }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  void number(int& field) {
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), field);
    REQUIRE(ValueError, error == std::errc{} && field > 0, "parse_schedule: found '", rest_, "' in '", text_,
            "', expected a positive number: write it as ", to_text(Schedule{}));
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  }

  void end() const {
    REQUIRE(ValueError, rest_.empty(), "parse_schedule: found '", rest_, "' after the end of '", text_,
            "', expected nothing: write it as ", to_text(Schedule{}));
  }

 private:
  std::string_view text_;
  std::string_view rest_;
};

}  // namespace

std::string to_text(const Schedule& s) {
  std::string text = concat(s.tile_m, "x", s.tile_n, s.ping_pong ? " ping-pong, " : " cooperative, ", s.stages,
                            " stages, cluster ", s.cluster_m, "x", s.cluster_n);
  if (s.split_k > 1) text += concat(", split ", s.split_k);
  return text +
         concat(", raster ", s.raster_group, ", sub ", s.sub, ", buffers ", s.input_buffers, "+", s.output_buffers);
}

Schedule parse_schedule(std::string_view text) {
  Schedule s;
  Reader reader(text);
  reader.number(s.tile_m);
  reader.word("x");
  reader.number(s.tile_n);
  s.ping_pong = reader.take(" ping-pong, ");
  if (!s.ping_pong) reader.word(" cooperative, ");
  reader.number(s.stages);
  reader.word(" stages, cluster ");
  reader.number(s.cluster_m);
  reader.word("x");
  reader.number(s.cluster_n);
  if (reader.take(", split ")) reader.number(s.split_k);
  reader.word(", raster ");
  reader.number(s.raster_group);
  reader.word(", sub ");
  reader.number(s.sub);
  reader.word(", buffers ");
  reader.number(s.input_buffers);
  reader.word("+");
  reader.number(s.output_buffers);
  reader.end();
  return s;
}

}  // namespace coda
