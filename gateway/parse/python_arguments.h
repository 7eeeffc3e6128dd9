// The arguments of a Python call, byte by byte, as a JSON object: what follows "tool_call(".
//
// Names of arguments with literals: strings without prefix or triple quotes, numbers, True, False,
// None, lists, tuples, dictionaries with strings as keys.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <string>

namespace tutti::gateway {

class PythonArguments {
 public:
  enum class At { kInside, kEnd, kWrong };
  // Adds to *json. kEnd: with the closing parenthesis.  REQUIRES: as JsonScanner::Push.
  At Push(char c, std::string* json);

 private:
  enum class State : uint8_t {
    kName,  // of an argument, or the end
    kInName,
    kEquals,
    kValue,
    kElement,  // or the end of the list
    kKey,      // of a dictionary, or its end
    kColon,
    kString,
    kEscape,
    kHex,
    kWord,
    kAfter,
    kEnd,
    kWrong,
  };
  State Next(char c, std::string* json);
  State OfName(char c, std::string* json);
  State OfValue(char c, std::string* json);
  State OfString(char c, std::string* json);
  State OfEscape(char c, std::string* json);
  State AfterValue(char c, std::string* json);
  State Open(char c, std::string* json);
  State Close(std::string* json);
  State EndWord(char c, std::string* json);
  State EndHex(std::string* json);
  void Separate(std::string* json);

  State state_ = State::kName;
  std::string open_;        // '[', '(' and '{'
  bool has_names_ = false;  // of arguments
  bool separate_ = false;   // a comma stands before the next element
  bool is_key_ = false;
  char quote_ = '"';
  std::string word_;  // or the name of an argument
  int digits_left_ = 0;
  uint32_t code_ = 0;
};

}  // namespace tutti::gateway
