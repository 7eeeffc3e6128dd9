// The log of a process, on stderr: lines for people, with the time and its zone, or a JSON object a
// line for machines. Everything else writes to it through spdlog, and waits for nobody who does not
// read it (log_output.h). A process that ends by std::_Exit flushes the logger before.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace tutti {

// The formats that --log-format takes.
inline constexpr char kLogFormats[] = "text,json";

// `process` stands in every line. Starts a thread, which takes no signals.  REQUIRES: `level` is a
// name of spdlog's, `format` of kLogFormats; before any thread that logs.
void SetUpLog(const std::string& process, const std::string& level, std::string_view format);

// Why the process ends: the last line on stderr, behind what the log has.  Waits for who reads the
// log no longer than a flush does.
void SayLast(const std::string& line);

// A value with a name. Texts may hold anything; they are escaped.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, int64_t, double> value;
};

// A line with values: "MESSAGE name=value name=value", or members of the JSON object beside
// "message". Level info.  Thread: any.
void LogFields(std::string_view message, std::initializer_list<LogField> fields);

}  // namespace tutti
