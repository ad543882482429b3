// File calls for tests: one kind of failure at the n-th call, and a disk that may lose what was not fsynced.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/file_calls.h"
#include "tests/data/test_files.h"

namespace tandem::testing {

enum class Fault { kIo, kNoSpace, kInterrupted, kShortWrite };

// The n-th call (n >= 1), and with `persistent` each later one, fails. A disk that is simulated needs no
// real fsync.
class FailingFileCalls final : public FileCalls {
 public:
  FailingFileCalls(Fault fault, std::int64_t n, bool persistent)
      : fault_(fault), n_(n), persistent_(persistent) {}
  // Whether there was an n-th call.
  bool reached() const { return calls_ >= n_; }

  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : FileCalls::open(path, flags, mode);
  }
  ssize_t write(int descriptor, const void* bytes, std::size_t size) override {
    if (fails()) return -1;
    return FileCalls::write(descriptor, bytes, is_faulty() && size > 1 ? size / 2 : size);
  }
  ssize_t read(int descriptor, void* bytes, std::size_t size) override {
    if (fails()) return -1;
    return FileCalls::read(descriptor, bytes, is_faulty() && size > 1 ? size / 2 : size);
  }
  int fsync(int) override { return fails() ? -1 : 0; }
  int rename(const char* from, const char* to) override { return fails() ? -1 : FileCalls::rename(from, to); }
  int unlink(const char* path) override { return fails() ? -1 : FileCalls::unlink(path); }

 private:
  bool is_faulty() const { return persistent_ ? calls_ >= n_ : calls_ == n_; }
  bool fails() {
    ++calls_;
    if (!is_faulty() || fault_ == Fault::kShortWrite) return false;
    errno = fault_ == Fault::kIo ? EIO : fault_ == Fault::kNoSpace ? ENOSPC : EINTR;
    return true;
  }

  const Fault fault_;
  const std::int64_t n_;
  const bool persistent_;
  std::int64_t calls_ = 0;
};

// Writes down what is done to the files of one folder, while it is done.
class RecordingFileCalls final : public FileCalls {
 public:
  enum class Kind { kCreate, kWrite, kSyncFile, kSyncFolder, kRename, kUnlink };
  struct Operation {
    Kind kind;
    int file = -1;             // kCreate, kWrite, kSyncFile: the number of its making
    std::string name{}, to{};  // file names
    std::string bytes{};       // kWrite
  };
  const std::vector<Operation>& operations() const { return operations_; }

  int open(const char* path, int flags, mode_t mode) override {
    const int descriptor = FileCalls::open(path, flags, mode);
    if (descriptor < 0) return descriptor;
    if (flags & O_CREAT) {
      open_files_[descriptor] = files_;
      operations_.push_back({.kind = Kind::kCreate, .file = files_++, .name = name_of(path)});
    } else if (flags & O_DIRECTORY) {
      open_files_[descriptor] = kFolder;
    }
    return descriptor;
  }
  ssize_t write(int descriptor, const void* bytes, std::size_t size) override {
    operations_.push_back({.kind = Kind::kWrite,
                           .file = open_files_.at(descriptor),
                           .bytes = std::string(static_cast<const char*>(bytes), size)});
    return FileCalls::write(descriptor, bytes, size);
  }
  int fsync(int descriptor) override {
    const int file = open_files_.at(descriptor);
    operations_.push_back({.kind = file == kFolder ? Kind::kSyncFolder : Kind::kSyncFile, .file = file});
    return 0;
  }
  int close(int descriptor) override {
    open_files_.erase(descriptor);
    return FileCalls::close(descriptor);
  }
  int rename(const char* from, const char* to) override {
    operations_.push_back({.kind = Kind::kRename, .name = name_of(from), .to = name_of(to)});
    return FileCalls::rename(from, to);
  }
  int unlink(const char* path) override {
    operations_.push_back({.kind = Kind::kUnlink, .name = name_of(path)});
    return FileCalls::unlink(path);
  }

 private:
  static constexpr int kFolder = -2;
  static std::string name_of(const char* path) { return std::filesystem::path(path).filename().string(); }

  std::vector<Operation> operations_;
  std::map<int, int> open_files_;
  int files_ = 0;
};

// What a disk may hold after a power cut. Of bytes that were not fsynced each sector of 512 may be there,
// missing (zeros) or cut off; each making, renaming and removal since the last fsync of the folder is there
// or not, whatever became of the others.
class LossyDisk {
 public:
  struct Obeys {
    bool file_syncs = true, folder_syncs = true;  // false: the disk (or the program) forgets them
  };
  explicit LossyDisk(Obeys obeys) : obeys_(obeys) {}

  void apply(const RecordingFileCalls::Operation& op) {
    using Kind = RecordingFileCalls::Kind;
    if (op.kind == Kind::kCreate) files_.emplace_back();
    if (op.kind == Kind::kWrite) files_.at(static_cast<std::size_t>(op.file)).bytes += op.bytes;
    if (op.kind == Kind::kSyncFile && obeys_.file_syncs) {
      File& file = files_.at(static_cast<std::size_t>(op.file));
      file.safe = file.bytes.size();
    }
    if (op.kind == Kind::kCreate || op.kind == Kind::kRename || op.kind == Kind::kUnlink)
      pending_.push_back(op);
    if (op.kind == Kind::kSyncFolder && obeys_.folder_syncs) {
      for (const auto& each : pending_) change_folder(folder_, each);
      pending_.clear();
    }
  }

  // The files that are left, by name.
  std::map<std::string, std::string> after_power_cut(std::mt19937_64& random) const {
    std::map<std::string, int> folder = folder_;
    for (const auto& op : pending_)
      if (random() % 2 == 0) change_folder(folder, op);
    std::map<std::string, std::string> left;
    for (const auto& [name, file] : folder)
      left[name] = torn(files_.at(static_cast<std::size_t>(file)), random);
    return left;
  }

 private:
  struct File {
    std::string bytes;
    std::size_t safe = 0;  // bytes that were fsynced
  };

  static void change_folder(std::map<std::string, int>& folder, const RecordingFileCalls::Operation& op) {
    using Kind = RecordingFileCalls::Kind;
    if (op.kind == Kind::kCreate) folder[op.name] = op.file;
    if (op.kind == Kind::kUnlink) folder.erase(op.name);
    if (op.kind != Kind::kRename || !folder.contains(op.name)) return;
    folder[op.to] = folder[op.name];
    folder.erase(op.name);
  }

  static std::string torn(const File& file, std::mt19937_64& random) {
    constexpr std::size_t kSector = 512;
    std::string bytes = file.bytes.substr(0, file.safe);
    const std::size_t lost = file.bytes.size() - file.safe;
    const std::size_t size = file.safe + (lost == 0 ? 0 : random() % (lost + 1));
    for (std::size_t at = file.safe; at < size; at = bytes.size()) {
      const std::size_t end = std::min(size, (at / kSector + 1) * kSector);
      bytes += random() % 2 == 0 ? file.bytes.substr(at, end - at) : std::string(end - at, '\0');
    }
    return bytes;
  }

  const Obeys obeys_;
  std::vector<File> files_;
  std::map<std::string, int> folder_;
  std::vector<RecordingFileCalls::Operation> pending_;
};

}  // namespace tandem::testing
