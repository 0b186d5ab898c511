// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/warpwright_replay/trace_file.hpp"

#include "digits/support_process.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

using replay::read_trace;
using replay::trace;
using replay::trace_error;
using test_support::read_file;
using test_support::scratch_directory;

namespace {

std::string const data = WARPWRIGHT_REPLAY_DATA;

void check_small(trace const& t) {
  CHECK(t.name == "small");
  CHECK(t.header == "{\"workload\": \"small\", \"ops\": 12, \"streams\": 2}");
  CHECK(t.streams == 2);
  CHECK(t.peak_live_bytes == 1000 + 1 + 2097153);
  CHECK(t.block_bytes == std::vector<std::uint64_t>{1000, 4096, 1, 2097153, 0, 300});
  CHECK(t.block_streams == std::vector<std::uint32_t>{0, 1, 0, 1, 0, 1});
  REQUIRE(t.operations.size() == 12);
  CHECK(t.operations[0].allocates);
  CHECK(t.operations[0].line == 3);
  CHECK(t.operations[8].block == 5);  // id 0 once more is another block
  CHECK(!t.operations[9].allocates);
  CHECK(t.operations[9].block == 2);
  CHECK(t.operations[9].crosses);
  int crossing = 0;
  for (replay::operation const& op : t.operations) crossing += op.crosses ? 1 : 0;
  CHECK(crossing == 1);
}

}  // namespace

TEST_CASE("warpwright's format is read") { check_small(read_trace(data + "/small.csv")); }

TEST_CASE("a compressed trace is read, or reported with the remedy") {
#if WARPWRIGHT_REPLAY_ZLIB
  check_small(read_trace(data + "/small.csv.gz"));
  scratch_directory scratch;
  std::string const whole = read_file(data + "/small.csv.gz");
  // By its content, not by its name.
  CHECK(read_trace(scratch.write("small.csv", whole)).operations.size() == 12);
  std::string const cut = scratch.write("cut.csv.gz", whole.substr(0, whole.size() - 20));
  CHECK_THROWS_WITH(read_trace(cut), contains("cut.csv.gz: the compressed data are truncated"));
  std::string bad = whole;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 0x55);
  std::string const damaged = scratch.write("bad.csv.gz", bad);
  CHECK_THROWS_AS(read_trace(damaged), trace_error);
  CHECK_THROWS_WITH(read_trace(damaged), contains("bad.csv.gz: cannot be decompressed: "));
  // Two concatenated files are one, and zeros behind them are padding.
  std::string const twice = scratch.write("two.csv.gz", whole + whole + std::string(512, '\0'));
  std::string once_and_again;
  for (int i = 0; i < 2; ++i) once_and_again += read_file(data + "/small.csv");
  CHECK(replay::detail::read_text(twice) == once_and_again);
#else
  CHECK_THROWS_WITH(read_trace(data + "/small.csv.gz"), contains("built without zlib"));
#endif
}

TEST_CASE("an RMM log is read") {
  trace const t = read_trace(data + "/rmm_log.csv");
  CHECK(t.name == "rmm_log");
  CHECK(t.header.empty());
  CHECK(t.streams == 2);
  CHECK(t.peak_live_bytes == 3072);
  CHECK(t.block_bytes == std::vector<std::uint64_t>{1024, 2048, 512});
  CHECK(t.block_streams == std::vector<std::uint32_t>{0, 1, 1});
  REQUIRE(t.operations.size() == 5);  // the failure is not an operation
  CHECK(t.operations[2].line == 5);
  CHECK(!t.operations[2].crosses);
  CHECK(t.operations[4].crosses);
}

TEST_CASE("blank lines, comments, blanks and Windows line ends do no harm") {
  scratch_directory scratch;
  trace const t = read_trace(scratch.write(
      "odd.csv", "\r\n# {no header, not in line 1}\r\n  a , 7,0x40 ,0\r\n\n#\nf,7,64,0"));
  CHECK(t.header.empty());
  REQUIRE(t.operations.size() == 2);
  CHECK(t.block_bytes == std::vector<std::uint64_t>{64});
  CHECK(t.operations[1].line == 6);
}

TEST_CASE("a byte order mark at the start does no harm") {
  scratch_directory scratch;
  std::string const mark = "\xef\xbb\xbf";
  trace const own = read_trace(scratch.write("own.csv", mark + "# {\"x\": 1}\na,7,64,0\n"));
  CHECK(own.header == "{\"x\": 1}");
  CHECK(own.operations.size() == 1);
  std::string const rmm = read_file(data + "/rmm_log.csv");
  CHECK(read_trace(scratch.write("rmm.csv", mark + rmm)).operations.size() == 5);
  CHECK_THROWS_WITH(read_trace(scratch.write("twice.csv", mark + mark + "a,7,64,0\n")),
                    contains("twice.csv:1: expected the operation"));
}

TEST_CASE("an invalid trace is reported with file, line and problem") {
  struct wrong {
    char const* text;
    char const* expected;
  };
  std::vector<wrong> const all = {
      {"", "bad.csv: holds no operation"},
      {"# only a comment\n", "bad.csv: holds no operation"},
      {"a,0,1\n", "bad.csv:1: expected the 4 fields op,id,bytes,stream, found 3 in \"a,0,1\""},
      {"a,0,1,0,0\n", "bad.csv:1: expected the 4 fields"},
      {"x,0,1,0\n", "bad.csv:1: expected the operation a (allocate) or f (free), found \"x\""},
      {"a,0,1,0\na,zero,1,0\n", "bad.csv:2: expected a block id, found \"zero\""},
      {"a,0,-1,0\n", "bad.csv:1: expected a number of bytes, found \"-1\""},
      {"a,0,,0\n", "bad.csv:1: expected a number of bytes, found \"\""},
      {"a,0,1.5,0\n", "bad.csv:1: expected a number of bytes, found \"1.5\""},
      {"a,0,18446744073709551616,0\n", "bad.csv:1: expected a number of bytes"},
      {"a,0,1,s\n", "bad.csv:1: expected a stream index, found \"s\""},
      {"a,0,1,18446744073709551616\n", "bad.csv:1: expected a stream index"},
      {"a,0,1,0\na,0,1,0\n",
       "bad.csv:2: block 0 is allocated again, but was not freed since line 1"},
      {"f,5,1,0\n", "bad.csv:1: block 5 is freed, but is not allocated"},
      {"a,0,1,0\nf,0,1,0\nf,0,1,0\n", "bad.csv:3: block 0 is freed, but is not allocated"},
      {"a,0,10,0\n\nf,0,11,0\n",
       "bad.csv:3: block 0 is freed with 11 bytes, but was allocated with 10 in line 1"},
      {"a,0,18446744073709551615,0\na,1,1,0\n", "bad.csv:2: the sizes add up past 2^64"},
      {"\x01\x02 binary \xff\n", "bad.csv:1: expected the 4 fields"},
      {"Thread,Time,Action\n", "bad.csv:1: looks like an RMM log, but its columns are not"},
      {"Thread,Time,Action,Pointer,Size,Stream\n1,2,allocate,0x10,5\n",
       "bad.csv:2: expected the 6 fields"},
      {"Thread,Time,Action,Pointer,Size,Stream\n1,2,resize,0x10,5,0\n",
       "bad.csv:2: expected the action allocate, free or allocate failure, found \"resize\""},
      {"Thread,Time,Action,Pointer,Size,Stream\n1,2,free,here,5,0\n",
       "bad.csv:2: expected a pointer, found \"here\""},
      {"Thread,Time,Action,Pointer,Size,Stream\n1,2,free,0x10,much,0\n",
       "bad.csv:2: expected a number of bytes, found \"much\""},
      {"Thread,Time,Action,Pointer,Size,Stream\n1,2,free,0x10,5,0xg\n",
       "bad.csv:2: expected a stream, found \"0xg\""},
      {"Thread,Time,Action,Pointer,Size,Stream\n1,2,free,0x10,5,0\n",
       "bad.csv:2: block 16 is freed, but is not allocated"},
  };
  scratch_directory scratch;
  for (wrong const& each : all) {
    std::string const path = scratch.write("bad.csv", each.text);
    CHECK_THROWS_WITH(read_trace(path), contains(each.expected));
  }
  CHECK_THROWS_WITH(read_trace(scratch.file("missing.csv")),
                    contains("missing.csv: cannot be opened: No such file or directory"));
  CHECK_THROWS_WITH(read_trace("/"), contains("/: cannot be read: Is a directory"));
}

TEST_CASE("streams are numbered in the order of their first use, and shared from 1,024 on") {
  std::string rmm = "Thread,Time,Action,Pointer,Size,Stream\n";
  std::string own;
  for (unsigned i = 0; i <= replay::maximum_streams + 1; ++i) {
    std::string const block = std::to_string(i + 1);
    std::string const stream = std::to_string(4294967295U - 5 * i);
    rmm += "1,2,allocate," + block + ",8," + stream + '\n';
    own += "a," + block + ",8," + stream + '\n';
  }
  own += "f,2,8,4294962170\n";  // by the stream that shares the allocating one's
  own += "f,1,8,4294962170\n";
  scratch_directory scratch;
  for (trace const& t : {read_trace(scratch.write("many_rmm.csv", rmm)),
                         read_trace(scratch.write("many_own.csv", own))}) {
    CHECK(t.streams == replay::maximum_streams);
    CHECK(t.block_streams[0] == 0);
    CHECK(t.block_streams[1023] == 1023);
    CHECK(t.block_streams[1024] == 0);
    CHECK(t.block_streams[1025] == 1);
  }
  trace const t = read_trace(scratch.write("many_own.csv", own));
  REQUIRE(t.operations.size() == 1028);
  CHECK(!t.operations[1026].crosses);
  CHECK(t.operations[1027].crosses);
  trace const few = read_trace(scratch.write("few.csv", "a,0,1,18446744073709551615\nf,0,1,7\n"));
  CHECK(few.streams == 2);
  CHECK(few.block_streams == std::vector<std::uint32_t>{0});
  CHECK(few.operations[1].stream == 1);
}

TEST_CASE("a trace is named after its file") {
  scratch_directory scratch;
  CHECK(read_trace(scratch.write("my trace.v2.csv", "a,0,1,0\n")).name == "my_trace.v2");
  CHECK(read_trace(scratch.write("plain", "a,0,1,0\n")).name == "plain");
  CHECK(read_trace(scratch.write(".csv", "a,0,1,0\n")).name == ".csv");
}
