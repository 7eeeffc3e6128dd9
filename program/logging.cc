#include "program/logging.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/last_words.h"
#include "base/mutex.h"
#include "nlohmann/json.hpp"
#include "program/log_output.h"
#include "spdlog/details/os.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/sink.h"
#include "spdlog/spdlog.h"

namespace tutti {
namespace {

// Time with zone, process and level in colour on a terminal.
constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z [%n] [%^%l%$] %v";
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","process":%N,%*})";

// A mark before the payload of LogFields in JSON: members of the object, not a message. No line
// begins so by itself.
constexpr char kMembers = '\x01';

std::atomic<bool> as_json{false};

// A last line that says why a process ends is waited for so long.
constexpr Duration kFlushPatience = std::chrono::milliseconds(250);

// The colours of levels on a terminal, as spdlog has them.
constexpr std::array<std::string_view, spdlog::level::n_levels> kColours = {
    "\033[37m",        "\033[36m",        "\033[32m", "\033[33m\033[1m",
    "\033[31m\033[1m", "\033[1m\033[41m", ""};
constexpr std::string_view kNoColour = "\033[m";

// Makes lines of messages.  Thread: any.
class LineMaker {
 public:
  explicit LineMaker(std::string process) : process_(std::move(process)) {}

  void SetFormatter(std::unique_ptr<spdlog::formatter> formatter) {
    const MutexLock lock(&mutex_);
    formatter_ = std::move(formatter);
  }
  std::string Line(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t buffer;
    {
      const MutexLock lock(&mutex_);
      formatter_->format(message, buffer);
    }
    std::string line(buffer.data(), buffer.size());
    if (coloured_ && message.color_range_end > message.color_range_start) {
      line.insert(message.color_range_end, kNoColour);
      line.insert(message.color_range_start, kColours[static_cast<size_t>(message.level)]);
    }
    return line;
  }
  // A line in the place of lines that are missing.
  std::string Notice(int64_t missing) {
    const std::string text =
        absl::StrCat(missing,
                     " lines are missing here: the log was not read, or could not be "
                     "written");
    return Line({process_, spdlog::level::warn, text});
  }

 private:
  const std::string process_;
  const bool coloured_ =
      spdlog::details::os::is_color_terminal() && spdlog::details::os::in_terminal(stderr);
  Mutex mutex_;
  std::unique_ptr<spdlog::formatter> formatter_ ABSL_GUARDED_BY(mutex_) =
      std::make_unique<spdlog::pattern_formatter>();
};

// Gives lines to an output that waits for nobody.
class OutputSink : public spdlog::sinks::sink {
 public:
  explicit OutputSink(const std::string& process)
      : maker_(std::make_shared<LineMaker>(process)),
        output_({}, [maker = maker_](int64_t missing) { return maker->Notice(missing); }) {}

  void log(const spdlog::details::log_msg& message) override {
    output_.Write(maker_->Line(message));
  }
  void flush() override { output_.Flush(kFlushPatience); }
  void set_pattern(const std::string& pattern) override {
    set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern));
  }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    maker_->SetFormatter(std::move(formatter));
  }

 private:
  const std::shared_ptr<LineMaker> maker_;
  LogOutput output_;
};

std::string Quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// %*: the payload as members of a JSON object; %N: the logger's name as a JSON text.
class MembersFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&,
              spdlog::memory_buf_t& to) override {
    const std::string_view payload(line.payload.data(), line.payload.size());
    const bool members = !payload.empty() && payload.front() == kMembers;
    const std::string text =
        members ? std::string(payload.substr(1)) : absl::StrCat("\"message\":", Quote(payload));
    to.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<MembersFlag>();
  }
};
class NameFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&,
              spdlog::memory_buf_t& to) override {
    const std::string name = Quote({line.logger_name.data(), line.logger_name.size()});
    to.append(name.data(), name.data() + name.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<NameFlag>();
  }
};

std::string AsText(const LogField& field) {
  if (const auto* const number = std::get_if<int64_t>(&field.value)) return absl::StrCat(*number);
  if (const auto* const number = std::get_if<double>(&field.value)) {
    return absl::StrFormat("%.1f", *number);
  }
  const auto text = std::get<std::string_view>(field.value);
  const bool plain = !text.empty() && text.find_first_of(" =\"") == std::string_view::npos;
  const std::string escaped = absl::CHexEscape(std::string(text));
  return plain ? escaped : absl::StrCat("\"", escaped, "\"");
}

std::string AsJson(const LogField& field) {
  const auto* const text = std::get_if<std::string_view>(&field.value);
  return text == nullptr ? AsText(field) : Quote(*text);
}

}  // namespace

void SayLast(const std::string& line) {
  spdlog::default_logger_raw()->flush();
  std::fprintf(stderr, "%s\n", line.c_str());
}

void SetUpLog(const std::string& process, const std::string& level, std::string_view format) {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>(process, std::make_shared<OutputSink>(process)));
  SetLastWords([] { spdlog::default_logger_raw()->flush(); });
  spdlog::set_level(spdlog::level::from_str(level));
  as_json = format == "json";
  if (!as_json) return spdlog::set_pattern(kTextPattern);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<MembersFlag>('*').add_flag<NameFlag>('N').set_pattern(kJsonPattern);
  spdlog::set_formatter(std::move(formatter));
}

void LogFields(std::string_view message, std::initializer_list<LogField> fields) {
  if (!spdlog::should_log(spdlog::level::info)) return;
  const bool json = as_json.load(std::memory_order_relaxed);
  std::string line = json ? absl::StrCat(std::string(1, kMembers), "\"message\":", Quote(message))
                          : std::string(message);
  for (const LogField& field : fields) {
    if (json) {
      absl::StrAppend(&line, ",", Quote(field.name), ":", AsJson(field));
    } else {
      absl::StrAppend(&line, " ", std::string(field.name), "=", AsText(field));
    }
  }
  spdlog::info(line);
}

}  // namespace tutti
