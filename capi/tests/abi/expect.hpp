// What the test programs share: failures are printed and counted.
#ifndef EXPECT_HPP
#define EXPECT_HPP

#include <det_post.h>

#include <cstdio>
#include <string>
#include <vector>

inline int num_failures = 0;

inline std::string message_of(uint64_t id)
{
  std::vector<char> buffer(det_post_error_message(id, nullptr, 0) + 1);
  det_post_error_message(id, buffer.data(), buffer.size());
  return buffer.data();
}

inline void expect(bool holds, const char * what)
{
  if (!holds) {
    std::printf("failed: %s\n", what);
    ++num_failures;
  }
}

// A status, and a part of the message of an object or, for 0, of this thread.
inline void expect_error(
  det_post_status found, det_post_status status, uint64_t id, const char * part, const char * what)
{
  const auto message = message_of(id);
  if (found != status || message.find(part) == std::string::npos) {
    std::printf(
      "failed: %s: %s (%s) expected, found %s: %s\n", what, det_post_status_name(status), part,
      det_post_status_name(found), message.c_str());
    ++num_failures;
  }
}

#endif
