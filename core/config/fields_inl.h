// The templates of fields.h: they only connect a variable's type to the functions of a Field. Included by
// fields.h alone.
#pragma once

#include "core/base/error.h"

namespace tandem {

template <class E>
requires std::is_enum_v<typename slot_detail::Unwrap<E>::type> Fields& Fields::choice(
    std::string name, E& variable,
    std::vector<std::pair<std::string, typename slot_detail::Unwrap<E>::type>> values, std::string doc) {
  using Table = std::vector<std::pair<std::string, typename slot_detail::Unwrap<E>::type>>;
  constexpr bool kOptional = slot_detail::Unwrap<E>::kOptional;
  std::vector<std::string> names;
  for (const auto& [text, value] : values) names.push_back(text);
  const auto table = std::make_shared<const Table>(std::move(values));
  E* target = &variable;
  Slot<std::string> slot;
  slot.nullable = kOptional;
  slot.get = [target, table]() -> std::optional<std::string> {
    if constexpr (kOptional)
      if (!*target) return std::nullopt;
    for (const auto& [text, value] : *table)
      if (*target == value) return text;
    throw Error(ErrorKind::kInternal, "[config] an enum value without a name in its choice");
  };
  slot.set = [target, table](std::optional<std::string> chosen) {
    if constexpr (kOptional)
      if (!chosen) target->reset();
    for (const auto& [text, value] : *table)
      if (chosen == text) *target = value;
  };
  return choice(std::move(name), std::move(slot), std::move(names), std::move(doc));
}

namespace fields_detail {

// Describes a default-constructed T that lives as long as the returned function.
template <class T>
std::function<Fields()> example_of() {
  return [value = std::make_shared<T>()] {
    *value = T{};
    return fields(*value);
  };
}

}  // namespace fields_detail

template <class T>
Fields& Fields::group(std::string name, T& sub, std::string doc) {
  Field field{.kind = Field::Kind::kGroup, .name = std::move(name), .type = "map", .doc = std::move(doc)};
  T* target = &sub;
  field.open = [target] { return fields(*target); };
  field.present = [target] { return std::vector<Fields>{fields(*target)}; };
  field.example = field.open;
  return add(std::move(field));
}

template <class T>
Fields& Fields::group(std::string name, std::optional<T>& sub, std::string doc) {
  Field field{
      .kind = Field::Kind::kGroup, .name = std::move(name), .type = "map or null", .doc = std::move(doc)};
  field.nullable = true;
  std::optional<T>* target = &sub;
  field.clear = [target] { target->reset(); };
  field.open = [target] {
    if (!*target) target->emplace();
    return fields(**target);
  };
  field.present = [target] {
    return *target ? std::vector<Fields>{fields(**target)} : std::vector<Fields>{};
  };
  field.example = fields_detail::example_of<T>();
  return add(std::move(field));
}

template <class T>
Fields& Fields::list(std::string name, std::vector<T>& items, std::string doc) {
  Field field{
      .kind = Field::Kind::kList, .name = std::move(name), .type = "list of maps", .doc = std::move(doc)};
  std::vector<T>* target = &items;
  field.clear = [target] { target->clear(); };
  field.open = [target] { return fields(target->emplace_back()); };
  field.present = [target] {
    std::vector<Fields> all;
    for (T& item : *target) all.push_back(fields(item));
    return all;
  };
  field.example = fields_detail::example_of<T>();
  return add(std::move(field));
}

}  // namespace tandem
