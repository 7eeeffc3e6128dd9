// The name that somebody may have meant who wrote a name that there is not.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// "; did you mean NAME?" for the candidate that is nearest to the word, if it is near: a letter in
// three may be another, be missing, be too many, or change places with its neighbour. "": none is.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tutti
