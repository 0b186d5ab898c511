// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The error log. Which calls a GPU's driver logs, and in which words, is not documented.
#include "conformance.hpp"

using namespace conformance;

namespace {

std::string dump(cudaLogIterator& from, std::size_t room = 25600) {
  std::string text(room, 'x');
  std::size_t size = room;
  SUCCEEDS(cudaLogsDumpToMemory(&from, &text[0], &size, 0));
  REQUIRE(size < room);
  text.resize(size);
  return text;
}

#if WARPWRIGHT_HOST_RUNTIME
std::size_t count(std::string const& text, std::string const& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}
#endif

}  // namespace

TEST_CASE("the log is read from an iterator, which advances") {
  cudaLogIterator at = 0;
  SUCCEEDS(cudaLogsCurrent(&at, 0));
  CHECK(dump(at).empty());
  stream const s;
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  RETURNS(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  RETURNS(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
  std::string const text = dump(at);
  CHECK(dump(at).empty());
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(count(text, "\n") == 2);
  CHECK(text.find("Returning 900 (cudaErrorStreamCaptureUnsupported) from cudaStreamSynchronize") !=
        std::string::npos);
  CHECK(text.find("Returning 901") < text.find("from cudaStreamEndCapture"));
#endif
}

TEST_CASE("arguments that the log refuses") {
  cudaLogIterator at = 0;
  char text[64];
  std::size_t size = sizeof text;
  RETURNS(cudaLogsCurrent(nullptr, 0), cudaErrorInvalidValue);
  SUCCEEDS(cudaLogsCurrent(&at, 0));
  RETURNS(cudaLogsDumpToMemory(&at, nullptr, &size, 0), cudaErrorInvalidValue);
  RETURNS(cudaLogsDumpToMemory(&at, text, nullptr, 0), cudaErrorInvalidValue);
  RETURNS(cudaLogsDumpToMemory(&at, text, &size, 1), cudaErrorInvalidValue);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("queries that are not ready are not logged, and threads have their own lines") {
  cudaLogIterator at = 0;
  gate closed;
  stream const s;
  SUCCEEDS(cudaLogsCurrent(&at, 0));
  SUCCEEDS(closed.block(s));
  RETURNS(cudaStreamQuery(s), cudaErrorNotReady);
  closed.open();
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(dump(at).empty());
  RETURNS(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
  std::thread([] { static_cast<void>(cudaMalloc(nullptr, 16)); }).join();
  std::string const text = dump(at);
  REQUIRE(count(text, "from cudaMalloc\n") == 2);
  std::string const second = text.substr(text.find('\n') + 1);
  CHECK(text.substr(text.find("]["), second.find("[CUDA]")) !=
        second.substr(second.find("]["), second.find("[CUDA]")));
}

TEST_CASE("old lines are dropped, and a small buffer gets the newest lines") {
  cudaLogIterator start = 0;
  SUCCEEDS(cudaLogsCurrent(&start, 0));
  for (int i = 0; i < 1000; ++i) RETURNS(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
  RETURNS(cudaFree(reinterpret_cast<void*>(8)), cudaErrorInvalidValue);
  cudaLogIterator at = start;
  std::string const all = dump(at, 30000);
  CHECK(all.size() <= 25700);
  CHECK(all.find("lost") < 50);
  CHECK(all.find("from cudaFree\n") == all.size() - 14);
  at = start;
  std::string const newest = dump(at, 300);
  CHECK(newest.find("lost") < 50);
  CHECK(newest.find("from cudaFree\n") == newest.size() - 14);
  at = start;
  char tiny[20];
  std::size_t size = sizeof tiny;
  RETURNS(cudaLogsDumpToMemory(&at, tiny, &size, 0), cudaErrorInvalidValue);
  CHECK(size == 0);
}
#endif
