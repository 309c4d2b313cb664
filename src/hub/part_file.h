// PartFile: a file that arrives in parts, in any order, and what of it is there: that outlives the
// program, however it ends.
//
// Beside NAME.incomplete lies NAME.parts: which file it is, and how many bytes of each part are
// written. It is written after the bytes, so it never says too much, except after a loss of power;
// the hash of the whole file shows that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"

namespace glint {

class PartFile {
 public:
  // Goes on with what lies at `path`, in its parts, if it is the same file; else begins anew, in
  // parts of `part_bytes`. The last part is shorter; a file without bytes has no part.
  static Result<PartFile> open(const std::string& path, std::int64_t size, std::int64_t part_bytes);
  // Bytes on disk that open() would go on from; 0 if it would begin anew. Writes nothing, so that
  // it may be asked while another program fetches the file.
  static std::int64_t bytes_in(const std::string& path, std::int64_t size);

  int num_parts() const { return static_cast<int>(done_.size()); }
  std::int64_t begin_of(int part) const { return part * part_bytes_; }
  std::int64_t length_of(int part) const;
  std::int64_t done_of(int part) const { return done_[static_cast<std::size_t>(part)]; }
  std::int64_t bytes_done() const;
  bool is_complete() const { return bytes_done() == size_; }

  // Behind what the part has, within its length.
  Status append(int part, std::string_view bytes);

  // Forgets everything that arrived; with `one_part`, the file is one part from now on.
  Status restart(bool one_part);

  // Syncs, and gives the file its name.
  Status finish(const std::string& target);

 private:
  PartFile() = default;
  bool read_record();
  Status write_record();
  Error failed(const char* doing) const;

  std::string path_;
  std::int64_t size_ = 0, part_bytes_ = 1;
  std::vector<std::int64_t> done_;  // bytes of each part
  OwnedFd file_, record_;
};

}  // namespace glint
