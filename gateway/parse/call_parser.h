// Finds calls of functions in the content of an answer, byte by byte.
//
// A call is announced as soon as its name is one of the functions' and its arguments have begun
// well; its arguments follow as they come. Until then its text is held back, and is content again
// if it turns out to be no call. Behind the announcement everything from the first byte that cannot
// be is content: what has been said stays said. A pure function of the text so far, however it is
// cut.
//
// Thread: one.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/parse/answer_form.h"
#include "gateway/parse/answer_piece.h"

namespace tutti::gateway {

class CallParser {
 public:
  virtual ~CallParser() = default;

  virtual void Push(char c, AnswerPieces* pieces) = 0;
  // Nothing follows: what is held back comes out.
  virtual void Finish(AnswerPieces* pieces) = 0;
  // Outside of what may be a call.
  virtual bool in_text() const = 0;

  // Calls whose arguments are whole.
  size_t complete_calls() const { return complete_; }
  // Of the calls that were announced, or would have been, counted from 0: the first that has not
  // become whole.
  std::optional<size_t> first_broken() const { return broken_ ? broken_ : open_; }
  // These are content, whatever they look like. Before any text.
  void Refuse(std::set<size_t> calls) { refused_ = std::move(calls); }

 protected:
  // REQUIRES: `functions` outlives it.
  explicit CallParser(const Functions* functions) : functions_(*functions) {}
  bool IsFunction(std::string_view name) const { return functions_.contains(name); }
  const Functions& functions() const { return functions_; }

  void Text(std::string_view text, AnswerPieces* pieces) const;
  // All of `text` again.
  void PushAll(std::string_view text, AnswerPieces* pieces);
  // False: this output has more calls than any should, or this is to be none.
  bool Announce(const std::string& name, AnswerPieces* pieces);
  void Arguments(std::string_view text, AnswerPieces* pieces) const;
  void Complete() {
    ++complete_;
    open_.reset();
  }

 private:
  const Functions& functions_;
  size_t calls_ = 0;
  size_t complete_ = 0;
  size_t tried_ = 0;            // to be announced
  std::optional<size_t> open_;  // of these: announced, and not yet whole
  std::optional<size_t> broken_;
  std::set<size_t> refused_;
};

}  // namespace tutti::gateway
