#include "cc/core/options/session_notes.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace lms {
namespace {

struct Sessions {
  std::mutex mutex;
  std::map<std::string, UnknownDim> sizes;  // by the session's name
  std::map<std::string, int> in_parts;      // likewise: how many steps are being made ready
};

Sessions& GetSessions() {
  static auto* sessions = new Sessions;
  return *sessions;
}

}  // namespace

std::string NoteSessionSizes(const std::string& session, const std::string& text) {
  Sessions& sessions = GetSessions();
  UnknownDim parsed;
  if (!text.empty()) {
    const std::optional<std::string> problem = ParseUnknownDim(text, &parsed);
    if (problem) return *problem;
  }
  const std::lock_guard<std::mutex> lock(sessions.mutex);
  if (text.empty()) {
    sessions.sizes.erase(session);
  } else {
    sessions.sizes[session] = std::move(parsed);
  }
  return "";
}

void AddSessionSizes(const std::string& session, UnknownDim* sizes) {
  Sessions& sessions = GetSessions();
  const std::lock_guard<std::mutex> lock(sessions.mutex);
  const auto found = sessions.sizes.find(session);
  if (found == sessions.sizes.end()) return;
  for (const UnknownDim::Named& seen : found->second.named) {
    const bool said = std::any_of(sizes->named.begin(), sizes->named.end(), [&seen](const UnknownDim::Named& other) {
      return other.argument == seen.argument && other.dim == seen.dim;
    });
    if (!said) sizes->named.push_back(seen);
  }
}

void NoteStepInParts(const std::string& session, bool begins) {
  Sessions& sessions = GetSessions();
  const std::lock_guard<std::mutex> lock(sessions.mutex);
  int& steps = sessions.in_parts[session];
  steps += begins ? 1 : -1;
  if (steps <= 0) sessions.in_parts.erase(session);
}

bool MakesStepInParts(const std::string& session) {
  Sessions& sessions = GetSessions();
  const std::lock_guard<std::mutex> lock(sessions.mutex);
  return sessions.in_parts.count(session) > 0;
}

}  // namespace lms
