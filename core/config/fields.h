// How an option struct describes its fields once: name, type, range, unit, text, default. Reading, errors,
// the resolved file and docs/config.md follow from it. Files, inherit and overrides are in load.h.
//
//   struct SgdOptions { double lr = 0.01; bool nesterov = false; std::optional<double> clip_norm; };
//   inline Fields fields(SgdOptions& o) {
//     return Fields()
//         .number("lr", o.lr, {.min = 0, .max = 10, .exclusive_min = true}, "Learning rate")
//         .flag("nesterov", o.nesterov, "Nesterov's form")
//         .number("clip_norm", o.clip_norm, {.min = 0}, "Largest global gradient norm; null: off");
//   }
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/config/errors.h"
#include "core/config/slot.h"
#include "core/config/tree.h"

namespace tandem {

// Bounds of a number, or of each element of a list of them, and of the list's length. The default allows all.
struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool exclusive_min = false;
  bool exclusive_max = false;
  std::int64_t min_size = 0;
  std::int64_t max_size = std::numeric_limits<std::int64_t>::max();
};
struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::int64_t min_size = 0;
  std::int64_t max_size = std::numeric_limits<std::int64_t>::max();
};

class Fields;

// One described field. A value is read and written as a whole; a group is a map of fields, a list has such a
// map per item.
struct Field {
  enum class Kind { kValue, kGroup, kList };
  Kind kind = Kind::kValue;
  std::string name{}, type{}, range{}, unit{}, doc{};
  bool nullable = false;
  std::function<void(const ConfigNode&, ErrorList&)> read{};  // kValue
  std::function<ConfigNode()> write{};                        // kValue
  std::function<void()> clear{};                              // kGroup: to null; kList: to no items
  std::function<Fields()> open{};  // kGroup: describes the value, made if null; kList: appends an item
  std::function<std::vector<Fields>()> present{};  // kGroup: the value or nothing if null; kList: the items
  std::function<Fields()> example{};  // describes a value with all defaults, for docs and suggestions
};

// The fields of one option struct, in order. The struct must outlive it. In the list below a variable may be
// a plain T or an std::optional<T>, where `null` stands for nullopt; `unit` is text such as "mm" or "steps".
class Fields {
 public:
  // double or float, finite.
  Fields& number(std::string name, Slot<double> variable, NumberRange range, std::string doc,
                 std::string unit = "");
  // int, int64_t, uint64_t, ...: any exact form (8, 1e3), never rounded.
  Fields& integer(std::string name, Slot<WideInteger> variable, IntegerRange range, std::string doc,
                  std::string unit = "");
  // As integer, where nullopt is written `auto`.
  Fields& integer_or_auto(std::string name, std::optional<std::int64_t>& variable, IntegerRange range,
                          std::string doc, std::string unit = "");
  // A number of bytes: 8GiB, 512MB, 4096.
  Fields& bytes(std::string name, Slot<WideInteger> variable, IntegerRange range, std::string doc);
  Fields& flag(std::string name, Slot<bool> variable, std::string doc);
  // `text` and `texts` take any scalar as it is written; a single text is a list of one.
  Fields& text(std::string name, Slot<std::string> variable, std::string doc, std::string unit = "");
  // A file or folder; stored as an absolute path, relative ones taken from the folder of the file that holds
  // the value.
  Fields& path(std::string name, Slot<std::string> variable, std::string doc);
  Fields& paths(std::string name, Slot<std::vector<std::string>> variable, std::string doc);
  // vector<double>, array<double, N>.
  Fields& numbers(std::string name, Slot<std::vector<double>> variable, NumberRange range, std::string doc,
                  std::string unit = "");
  Fields& integers(std::string name, Slot<std::vector<WideInteger>> variable, IntegerRange range,
                   std::string doc, std::string unit = "");
  Fields& texts(std::string name, Slot<std::vector<std::string>> variable, std::string doc,
                std::string unit = "");
  // vector<array<int64_t, 3>>: [[1, 1, 1], [2, 2, 2]].
  Fields& triples(std::string name, Slot<std::vector<std::array<std::int64_t, 3>>> variable,
                  IntegerRange range, std::string doc, std::string unit = "");
  // One of a few words.
  Fields& choice(std::string name, Slot<std::string> variable, std::vector<std::string> values,
                 std::string doc);
  template <class E>
  requires std::is_enum_v<typename slot_detail::Unwrap<E>::type> Fields& choice(
      std::string name, E& variable,
      std::vector<std::pair<std::string, typename slot_detail::Unwrap<E>::type>> values, std::string doc);
  // Anything else. `read` stores the value or calls errors.wrong(node, ...); `write` gives it back.
  Fields& custom(std::string name, std::string type, std::function<void(const ConfigNode&, ErrorList&)> read,
                 std::function<ConfigNode()> write, std::string doc, std::string unit = "");
  // A map described by fields(T&), found by argument-dependent lookup; null is std::nullopt.
  template <class T>
  Fields& group(std::string name, T& sub, std::string doc);
  template <class T>
  Fields& group(std::string name, std::optional<T>& sub, std::string doc);
  // A list of such maps.
  template <class T>
  Fields& list(std::string name, std::vector<T>& items, std::string doc);

  // A rule over several fields, called after the map was read: errors.rule("init", "got 8, expected at most
  // max (4)"). Not where one of the `keys` that it reads (none given: anything in the map) was wrong.
  Fields& check(std::function<void(ErrorList&)> rule, std::vector<std::string> keys = {});
  // `keys` have a meaning only while the choice `selector` of this struct has one of `values`. Else they are
  // not emitted, and an error where written, unless the selector was changed by a later file or override.
  Fields& only_for(std::vector<std::string> keys, std::string selector, std::vector<std::string> values);
  // The key must be written.
  Fields& required(std::string key);

  struct Condition {
    std::vector<std::string> keys;
    std::string selector;
    std::vector<std::string> values;
  };
  const std::vector<Field>& all() const { return fields_; }
  const Field* find(std::string_view name) const;
  struct Rule {
    std::function<void(ErrorList&)> check;
    std::vector<std::string> keys;
  };
  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<Condition>& conditions() const { return conditions_; }
  const std::vector<std::string>& required_keys() const { return required_; }
  // False where only_for says that `key` has no meaning with the present value of its selector.
  bool applies(std::string_view key) const;
  // The value as a tree: every field that applies, in order.
  ConfigNode emit() const;

 private:
  Fields& add(Field field);

  std::vector<Field> fields_;
  std::vector<Rule> rules_;
  std::vector<Condition> conditions_;
  std::vector<std::string> required_;
};

// Stores the values of the map `node` (null: all defaults) in the struct behind `fields`. Keys not written
// keep what the struct holds. All errors of the tree are collected: the first form throws them as one
// Error{kConfig}.
void parse_options(const ConfigNode& node, const Fields& fields);
void parse_options(const ConfigNode& node, const Fields& fields, ErrorList& errors);

// Every field with its present value; parse_options of the text gives the same values, bit for bit.
std::string emit_yaml(const Fields& fields);
// The table of docs/config.md: key, type, range, default, unit, text; one row per field, groups first.
std::string describe_markdown(const Fields& fields);
// Full names of all fields ("optimizer.lr"), in order.
std::vector<std::string> all_keys(const Fields& fields);

}  // namespace tandem

#include "core/config/fields_inl.h"
