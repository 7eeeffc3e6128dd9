// <tool_call><function=NAME><parameter=KEY>VALUE</parameter>...</function></tool_call>, with line
// ends between; the outer tags may be missing. One line end on each side of VALUE belongs to the
// markup. Texts stream; other values follow when they are whole.
//
// Models leave </parameter> out: a value ends as well before a line that begins with another
// parameter of this function, and with the function: </function> before </tool_call>, or, without
// outer tags, on a line of its own or before another call. Tags that close nothing, behind a value
// or a call, belong to the markup too.
//
// A value that the answer's grammar has written as JSON (ValueTypes::is_json) is taken as it
// stands, and no tag in its texts ends it.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "gateway/parse/call_parser.h"
#include "gateway/parse/tag_finder.h"

namespace tutti::gateway {

class XmlCalls final : public CallParser {
 public:
  explicit XmlCalls(const Functions* functions) : CallParser(functions) {}
  void Push(char c, AnswerPieces* pieces) override;
  void Finish(AnswerPieces* pieces) override;
  bool in_text() const override { return state_ == State::kText || state_ == State::kClose; }

 private:
  enum class State : uint8_t {
    kText,
    kFunction,
    kName,
    kNext,
    kKey,
    kValue,
    kNextKey,  // behind a line end and <parameter= inside a value
    kMayEnd,   // behind </function> inside a value
    kClose,    // behind </function>
  };
  void PushText(char c, AnswerPieces* pieces);
  void PushFunction(char c, AnswerPieces* pieces);
  void PushName(char c, AnswerPieces* pieces);
  void PushNext(char c, AnswerPieces* pieces);
  void PushKey(char c, AnswerPieces* pieces);
  void PushValue(char c, AnswerPieces* pieces);
  void PushNextKey(char c, AnswerPieces* pieces);
  void PushMayEnd(char c, AnswerPieces* pieces);
  void PushClose(char c, AnswerPieces* pieces);
  // Not a call from `c` on.
  void Fail(char c, AnswerPieces* pieces);
  // A byte of a text in JSON, in which no tag ends the value.
  void PushJsonText(char c, AnswerPieces* pieces);
  // The pieces of the value, part by part; nothing at its end.
  void TakeValue(std::string_view text, AnswerPieces* pieces);
  void EndValue(AnswerPieces* pieces);
  // What looked like the end of the value is a part of it.
  void GoOnWithValue(std::string_view tag, std::string_view rest, AnswerPieces* pieces);
  void EndFunction(AnswerPieces* pieces);
  // False: too many calls.
  bool MakeSureItIsAnnounced(AnswerPieces* pieces);

  State state_ = State::kText;
  bool skip_line_ends_ = false;
  bool has_outer_tag_ = false;
  bool announced_ = false;
  std::string held_;  // the call's text until it is announced
  std::string name_;  // of the function, then of the parameter
  std::string function_;
  std::set<std::string, std::less<>> given_;  // parameters
  const ValueTypes* types_ = nullptr;         // of the value; null: a text
  bool at_value_begin_ = false;
  bool in_json_text_ = false;  // of a value that is written as JSON
  bool escaped_ = false;       // there, behind a backslash
  std::string value_;          // that is no text
  TagFinder begin_{{"\n<tool_call>", "<tool_call>", "\n<function=", "<function="}};
  NextWord function_word_{{"<function="}};
  NextWord next_{{"<parameter=", "</function>", "</parameter>"}};
  TagFinder value_end_{
      {"\n</parameter>", "</parameter>", "\n<parameter=", "\n</function>", "</function>"}};
  std::string_view end_tag_;  // </function>, perhaps on a line of its own
  NextWord behind_end_{{"</tool_call>", "<tool_call>", "<function="}};
  NextWord close_{{"</tool_call>", "</function>", "</parameter>"}};
};

}  // namespace tutti::gateway
