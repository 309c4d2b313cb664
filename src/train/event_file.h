// Event files that TensorBoard reads: scalars by name and step.
//
// A file is records of TensorFlow's framing around protocol buffers of type Event; both are little
// enough to be written here: https://www.tensorflow.org/tutorials/load_data/tfrecord and
// tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace glint {

class EventFile {
 public:
  // Begins DIR/events.out.tfevents.SECONDS.glint.PID, and makes DIR. What older files of DIR hold
  // from step `first_step` on is void from now on: the run does these steps again. Fails if nothing
  // can be written there.
  static Result<EventFile> open(const std::string& dir, std::int64_t first_step);

  // Adds every member of `values` that is a number and has a '/' in its name; it is on its way to
  // the disk before this returns.
  Status add(std::int64_t step, const Json& values);

 private:
  Status append(std::string_view event) const;

  std::string path_;
};

// CRC-32C (Castagnoli): 0xe3069283 of "123456789".
std::uint32_t crc32c(std::string_view bytes);

// One record: length, its checksum, the bytes, their checksum.
std::string framed_record(std::string_view bytes);

}  // namespace glint
