// Lines that a person types: with editing, and a history that outlives the program (libedit). From
// a file or a pipe they come as they are.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace tutti::client {

// The file of the history unless it is told otherwise: $XDG_STATE_HOME/tutti/chat_history, or below
// ~/.local/state; "" where there is no home.
std::string UsualHistoryFile();

// Thread: one, but RestoreTerminal.
class LineReader {
 public:
  // Standard input. `history_file`: read now, written at the end, for this user alone; "": the
  // history ends with this object. A file that cannot be read or written is no error: `warning`
  // says so.
  static std::unique_ptr<LineReader> OfStandardInput(const std::string& history_file,
                                                     std::string* warning);
  virtual ~LineReader() = default;

  // The next line without its end; nothing at the end of the input.
  virtual std::optional<std::string> Read(const std::string& prompt) = 0;
  // Gives the terminal back as it was found, for a process that is about to end without more.
  // Thread: any.
  virtual void RestoreTerminal() {}
};

}  // namespace tutti::client
