// Passes of ranks: what is read is whole, and is written as the same bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "runtime/rank_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace glint;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto command = read_command(bytes);
  if (!command.ok()) {
    GLINT_CHECK(!command.error().message.empty(), "an error without words");
    return 0;
  }
  GLINT_CHECK(write_command(command.value()) == bytes, "a command that is written in another way");
  for (const StepRows& rows : command.value().replicas) {
    for (const RowSlice& slice : rows.slices) {
      GLINT_CHECK(slice.token_begin + slice.count <= std::ssize(rows.tokens) &&
                      slice.page_begin + slice.num_pages <= std::ssize(rows.pages),
                  "a slice outside of the rows");
    }
  }
  return 0;
}
