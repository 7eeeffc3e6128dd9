#include "client/line_reader.h"

#include <histedit.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/limits.h"
#include "client/terminal.h"

namespace tutti::client {
namespace {

class PlainReader final : public LineReader {
 public:
  std::optional<std::string> Read(const std::string&) override {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
};

class EditingReader final : public LineReader {
 public:
  EditingReader(std::string history_file, std::string* warning)
      : history_file_(std::move(history_file)) {
    has_modes_ = tcgetattr(STDIN_FILENO, &modes_) == 0;
    // True of a terminal that takes UTF-8, for lines that are edited by the character.
    if (std::setlocale(LC_CTYPE, "") == nullptr ||
        std::strcmp(std::setlocale(LC_CTYPE, nullptr), "C") == 0) {
      std::setlocale(LC_CTYPE, "C.UTF-8");
    }
    editor_ = el_init("tutti", stdin, stdout, stderr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLinesMax);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &EditingReader::PromptOf);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    LoadHistory(warning);
  }

  ~EditingReader() override {
    HistEvent event;
    if (!history_file_.empty()) history(history_, &event, H_SAVE, history_file_.c_str());
    history_end(history_);
    el_end(editor_);
  }

  std::optional<std::string> Read(const std::string& prompt) override {
    prompt_ = prompt;
    int count = 0;
    const char* const text = el_gets(editor_, &count);
    if (text == nullptr || count <= 0) return std::nullopt;
    std::string line(text, static_cast<size_t>(count));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    return line;
  }

  void RestoreTerminal() override {
    if (has_modes_) tcsetattr(STDIN_FILENO, TCSANOW, &modes_);
  }

 private:
  static char* PromptOf(EditLine* editor) {
    EditingReader* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->prompt_.data();
  }

  // The questions that people ask are their own affair: the folder and the file are for this user
  // alone.
  void LoadHistory(std::string* warning) {
    if (history_file_.empty()) return;
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::path(history_file_).parent_path();
    if (!folder.empty() && !std::filesystem::exists(folder, error)) {
      std::filesystem::create_directories(folder.parent_path(), error);
      mkdir(folder.c_str(), 0700);
    }
    std::FILE* const file = std::fopen(history_file_.c_str(), "a");
    if (file == nullptr) {
      *warning = absl::StrCat("no history is kept: cannot write ", history_file_, ": ",
                              std::strerror(errno));
      history_file_.clear();
      return;
    }
    fchmod(fileno(file), 0600);
    std::fclose(file);
    // libedit refuses a file that is not one of its own, an empty one among them.
    HistEvent event;
    if (std::filesystem::file_size(history_file_, error) == 0 || error) return;
    if (history(history_, &event, H_LOAD, history_file_.c_str()) < 0) {
      *warning = absl::StrCat("no history is kept: ", history_file_,
                              " is no history of this program; choose another (--history)");
      history_file_.clear();
    }
  }

  std::string history_file_;
  std::string prompt_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  termios modes_{};
  bool has_modes_ = false;
};

}  // namespace

std::string UsualHistoryFile() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return absl::StrCat(state, "/tutti/chat_history");
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return "";
  return absl::StrCat(home, "/.local/state/tutti/chat_history");
}

std::unique_ptr<LineReader> LineReader::OfStandardInput(const std::string& history_file,
                                                        std::string* warning) {
  if (!IsTerminal(STDIN_FILENO) || !IsTerminal(STDOUT_FILENO)) {
    return std::make_unique<PlainReader>();
  }
  return std::make_unique<EditingReader>(history_file, warning);
}

}  // namespace tutti::client
