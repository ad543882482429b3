// All errors of a job file (or its warnings), collected and told together by line, each with its place. What
// an error says about types and ranges comes from fields.cpp; nearest-key suggestions from nearest.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/config/tree.h"

namespace tandem {

// "optimizer" + "lr" -> "optimizer.lr"; a part that starts with '[' is joined without the dot.
std::string join_key(std::string_view path, std::string_view part);

// Collects errors while a tree is read and knows the key being read, so that texts name it in full.
class ErrorList {
 public:
  // "error: TEXT\n  --> PLACE     NOTE". `text` in one line, no full stop.
  void add(std::string text, const Position& place, std::string note = "");
  // About `node`, the value being read: "'optimizer.lr': got 'abc', expected EXPECTED".
  void wrong(const ConfigNode& node, std::string_view expected, std::string note = "");
  // From a rule over several keys: about `key` (further down: "loss_scale.init", "groups[1].match") of the
  // map being read, at the place of that key, or of the map where the key was not written: "'optimizer.KEY':
  // TEXT".
  void rule(std::string_view key, std::string_view text, std::string note = "");

  // `key` of the map being read is not as the file's author meant it, so rules must not judge by it: wrong()
  // and rule() note theirs.
  void mark_wrong(std::string_view key) { mark_wrong_in_full(join_key(path_, key)); }
  void mark_wrong_in_full(std::string full_key) { wrong_.push_back(std::move(full_key)); }
  // Whether that holds for one of `keys`, something inside it, or what it is inside of.
  bool is_any_wrong(std::span<const std::string> keys) const;
  // Where `key` of the map being read was written (an item of a list: where that starts), if it was.
  std::optional<Position> written_at(std::string_view key) const;

  bool empty() const { return entries_.empty(); }
  int count() const { return static_cast<int>(entries_.size()); }
  // More errors than are shown: a costly note may be left out.
  bool full() const { return count() >= kMaxShown; }
  // All of them, "TEXT\n  --> PLACE     NOTE", by line: the file first, then those it inherits, then what has
  // no line.
  std::vector<std::string> lines() const;
  // Throws one Error with all lines (the first 20 in full); nothing if empty.
  void throw_if_any(ErrorKind kind = ErrorKind::kConfig) const;

  // The key being read, in full: "optimizer.lr", "model.features[1]"; "" at the root.
  const std::string& path() const { return path_; }

  // While it lives, `part` ("lr" or "[1]") is added to path(), and `map`, if given, is the map being read.
  class Scope {
   public:
    Scope(ErrorList& errors, std::string_view part, const ConfigNode* map = nullptr);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ErrorList& errors_;
    std::size_t old_length_;
    const ConfigNode* old_map_;
  };

 private:
  struct Entry {
    std::string text;
    Position place;
  };
  static constexpr int kMaxShown = 20;
  // The value of `key` below the map being read, as far down as it was written, and the place of its key.
  struct Found {
    Position place;
    bool whole = false;
  };
  Found find(std::string_view key) const;

  std::vector<Entry> entries_;
  std::vector<std::string> wrong_;  // full keys
  std::string path_;
  const ConfigNode* map_ = nullptr;
};

}  // namespace tandem
