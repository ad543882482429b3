// The JSON Schema of described fields, for editors that check YAML while it is typed. What the fields are is
// fields.h.
#pragma once

#include <string>

#include "core/config/fields.h"

namespace tandem {

// JSON Schema (draft 2020-12), indented: types, ranges, words, defaults, descriptions; unknown keys are
// wrong. Rules over several fields are not in it: `config check` knows them all.
std::string describe_json_schema(const Fields& fields, const std::string& title);

}  // namespace tandem
