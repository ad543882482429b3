// All errors of a job file, collected and thrown together, each with its place. What an error says about
// types and ranges comes from fields.cpp; nearest-key suggestions from nearest.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/tree.h"

namespace tandem {

// Collects errors while a tree is read and knows the key being read, so that texts name it in full.
class ErrorList {
 public:
  // "error: TEXT\n  --> PLACE     NOTE". `text` in one line, no full stop.
  void add(std::string text, const Position& place, std::string note = "");
  // About `node`, the value being read: "'optimizer.lr': got 'abc', expected EXPECTED".
  void wrong(const ConfigNode& node, std::string_view expected, std::string note = "");
  // From a rule over several keys: about `key` (dotted for a key further down) of the map being read, at the
  // place of that key, or of the map where the key was not written: "'optimizer.KEY': TEXT".
  void rule(std::string_view key, std::string_view text, std::string note = "");

  bool empty() const { return count_ == 0; }
  int count() const { return count_; }
  // More errors than are shown: a costly note may be left out.
  bool full() const { return count_ >= kMaxShown; }
  // Throws one Error{kConfig} with all of them (the first 20 in full), in order of adding; nothing if empty.
  void throw_if_any() const;

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
  static constexpr int kMaxShown = 20;
  std::vector<std::string> shown_;
  int count_ = 0;
  std::string path_;
  const ConfigNode* map_ = nullptr;
};

// "optimizer" + "lr" -> "optimizer.lr"; a part that starts with '[' is joined without the dot.
std::string join_key(std::string_view path, std::string_view part);

}  // namespace tandem
