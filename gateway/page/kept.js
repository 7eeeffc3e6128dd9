// Conversations that this browser keeps, and no server.

const KEY = "tutti-chats";
const MOST = 40;
// Of all of them together; browsers give a page some five million characters.
const LONGEST = 2_000_000;

// [{id, system, messages}], the latest first.
export function readKept() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one?.id === "string" && Array.isArray(one.messages)) : [];
  } catch {
    return [];
  }
}

function write(kept) {
  for (let rest = kept.slice(0, MOST); ; rest = rest.slice(0, -1)) {
    const text = JSON.stringify(rest);
    if (text.length > LONGEST && rest.length > 1) continue;
    try {
      localStorage.setItem(KEY, text);
      return;
    } catch {
      // No room, or not allowed: then fewer, or none.
      if (rest.length === 0) return;
    }
  }
}

export function keep(conversation) {
  write([conversation, ...readKept().filter((one) => one.id !== conversation.id)]);
}

export const forget = (id) => write(readKept().filter((one) => one.id !== id));

export function titleOf({ messages }) {
  const first = String(messages.find((one) => one.role === "user")?.content ?? "").trim().replace(/\s+/g, " ");
  return first.length > 48 ? `${first.slice(0, 47)}…` : first || "empty";
}
