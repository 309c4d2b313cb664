// A plan as one HTML page.
#include <algorithm>

#include "base/page_style.h"
#include "base/str.h"
#include "base/svg.h"
#include "plan/report.h"

namespace glint {
namespace {

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

Chart memory_chart(const Deployment& d) {
  Chart chart = {.title = "Memory of a device by what it is for",
                 .y_label = "GiB",
                 .x_label = "",
                 .marks = Chart::Marks::kBars};
  const auto add = [&](const std::string& name, std::int64_t bytes) {
    if (bytes > 0) {
      chart.points.push_back({name, gib(bytes), str(name, ": ", memory_size(bytes))});
    }
  };
  // A chart has room for the names of a few bars: the table says the rest.
  std::int64_t others = 0;
  for (int i = 0; i < kNumTensorRoles; ++i) {
    const std::int64_t bytes = d.rank.weights[static_cast<std::size_t>(i)];
    if (bytes < d.rank.weight_bytes() / 50) {
      others += bytes;
    } else {
      add(name_of(static_cast<TensorRole>(i)), bytes);
    }
  }
  add("other weights", others);
  add("activations", d.rank.working_bytes());
  add("KV cache", d.cache);
  return chart;
}

Chart step_chart(const Deployment& d) {
  Chart chart = {.title = "Floor of a decode step over the batch",
                 .y_label = "ms",
                 .x_label = "sequences in the batch"};
  for (const DecodePoint& p : d.decode) {
    const double ms = p.floor.seconds * 1e3;
    chart.points.push_back(
        {std::to_string(p.batch), ms, formatted("batch %d: %.2f ms", p.batch, ms)});
  }
  return chart;
}

Chart context_chart(const Deployment& d) {
  Chart chart = {.title = "Context that each of so many sequences can have",
                 .y_label = "thousand tokens",
                 .x_label = "sequences at once"};
  const std::int64_t groups = d.options.layout.num_sequence_groups();
  for (std::int64_t n = groups; n <= 1024; n *= 2) {
    const std::int64_t pages = d.cache_tokens / kPageSize / (n / groups);
    const std::int64_t tokens = std::min(pages * kPageSize, d.max_model_len);
    if (tokens == 0) break;
    chart.points.push_back(
        {std::to_string(n), static_cast<double>(tokens) / 1000,
         str(counted(n, "sequence"), ": ", with_commas(tokens), " tokens each")});
  }
  return chart;
}

}  // namespace

std::string to_html(const PlanReport& r) {
  const Deployment& d = r.deployment;
  const DeploymentOptions& o = d.options;
  const std::string title = str(o.model, " on ", o.count, " x ", o.device.product);
  std::string page =
      page_begin(title) + str("<p>",
                              escape_html(str(o.format, ", ", describe(o.layout), ". ",
                                              d.fits ? "It fits." : "It does not fit: " + d.limit)),
                              "</p>\n");
  page += page_section("Memory of a device", "Weights by role, what steps take, and the cache.",
                       svg_chart(memory_chart(d)));
  if (!d.decode.empty()) {
    page += page_section("Step time over batch",
                         str("The least time of a step in which every sequence gets one token: ",
                             with_commas(o.input_len), " tokens in, ", with_commas(o.output_len),
                             " out. Engines are slower."),
                         svg_chart(step_chart(d)));
  }
  if (d.cache_tokens > 0) {
    page += page_section("Context over concurrency",
                         "How long each sequence can be when so many run at once.",
                         svg_chart(context_chart(d)));
  }
  page += str("<section>\n<details><summary>as numbers</summary>\n<pre style=\"overflow-x: auto\">",
              escape_html(to_text(r)), "</pre>\n</details>\n</section>\n", kPageEnd);
  return page;
}

}  // namespace glint
