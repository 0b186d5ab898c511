// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_support.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>

using namespace test_support;

namespace {

using options = ww::checkpoint_options;

// A file of Python's safetensors 0.7, of numpy arrays and metadata.
std::string python_file() {
  char const header[] =
      "{\"__metadata__\":{\"made by\":\"safetensors \\\"x\\\"\"},"
      "\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
      "\"tab\\t\xc3\xbc\xf0\x9f\x98\x80\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]"
      "},"
      "\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[20,32]}}";
  char const data[] =
      "\x07\0\0\0\0\0\0\0\xf8\xff\xff\xff\xff\xff\xff\xff\0\0\xc0\x3f\0\0\0\x3c\0\x40\0\x42\0\x44\0"
      "\x45";
  return std::string("\xe0\0\0\0\0\0\0\0", 8) + header + std::string(data, 32);
}

}  // namespace

TEST_CASE("a state is what it was: through rings of any size, in both modes") {
  for (bool const beside : {false, true}) {
    for (std::size_t const ring : {0U, 16384U, 40000U}) {
      CAPTURE(beside, ring);
      folder const f;
      state s;
      {
        ww::checkpoint_writer saver{f.path(), options{}.ring(ring).copy_beside(beside)};
        CHECK(saver.restore(s.list) == 0);
        CHECK(s.is(0));
        s.set(5);
        ww::pending_save const save = saver.save(5, s.stream, s.list);
        saver.before_update(s.stream);
        s.set(6);
        CHECK(save.wait());
        CHECK(save.done());
        CHECK(saver.error().empty());
      }
      std::string const file = content(f.newest(".safetensors"));
      CHECK(file.find("\"step\":\"5\"},\"count\":{\"dtype\":\"I64\"") != std::string::npos);
      CHECK((file.size() - s.list.bytes()) % 8 == 0);  // Python maps elements of 8 bytes
      ww::checkpoint_writer saver{f.path()};
      CHECK(saver.restore(s.list) == 5);
      CHECK(s.is(5));
      CHECK(saver.skipped().empty());
    }
  }
}

TEST_CASE("a save is behind the earlier work of the stream, and restore() behind that of all") {
  auto const sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds{30}); };
  for (bool const beside : {false, true}) {
    folder const f;
    state s;
    ww::checkpoint_writer saver{f.path(), options{}.copy_beside(beside)};
    ww::check(cudaLaunchHostFunc(s.stream, sleep, nullptr), "cudaLaunchHostFunc");
    ww::check(cudaMemsetAsync(s.bytes.data(), 7, 7, s.stream), "cudaMemsetAsync");
    REQUIRE(saver.save(1, s.stream, s.list).wait());
    ww::check(cudaLaunchHostFunc(s.stream, sleep, nullptr), "cudaLaunchHostFunc");
    ww::check(cudaMemsetAsync(s.bytes.data(), 9, 7, s.stream), "cudaMemsetAsync");
    REQUIRE(saver.restore(s.list) == 1);
    unsigned char byte = 0;
    s.bytes.copy_to(s.stream, &byte, 1);
    s.stream.synchronize();
    CHECK(byte == 7);
  }
}

TEST_CASE("saves behind one another, and the newest stay") {
  folder const f;
  state s;
  {
    ww::checkpoint_writer saver{f.path(), options{}.keep(2)};
    for (std::uint64_t step = 1; step <= 5; ++step) {
      s.set(step);
      saver.save(step, s.stream, s.list);
    }
    s.set(50);
    saver.save(5, s.stream, s.list);  // in place of the other one
  }
  CHECK(f.names().size() == 4);
  CHECK(f.names()[1] == "step-000000000004.manifest");
  CHECK(f.names()[3] == "step-000000000005.manifest");
  write(f.path() + "/step-000000000005.1.tmp", "");  // as a process that was killed leaves
  write(f.path() + "/step-000000000006.2.tmp", "");
  write(f.path() + "/step-000000000006.3.safetensors", "");
  write(f.path() + "/step-by-step.txt", "");  // somebody else's
  ww::checkpoint_writer saver{f.path(), options{}.keep(2)};
  CHECK(saver.restore(s.list) == 5);
  CHECK(s.is(50));
  REQUIRE(saver.save(7, s.stream, s.list).wait());
  REQUIRE(f.names().size() == 5);
  CHECK(f.names()[1] == "step-000000000005.manifest");
  CHECK(f.names()[3] == "step-000000000007.manifest");
  write(f.newest(".manifest"), "damaged");
  ww::checkpoint_writer again{f.path(), options{}.keep(2)};
  CHECK(again.restore(s.list) == 5);
  REQUIRE(again.save(6, s.stream, s.list).wait());
  CHECK(f.names()[3] == "step-000000000006.manifest");  // 7 would be of another past
  CHECK(f.names().size() == 5);
}

TEST_CASE("a graph waits before its update until the last save has copied the state") {
  folder const f;
  state s;
  ww::checkpoint_writer saver{f.path(), options{}.copy_beside()};
  ww::graph const captured = ww::capture(s.stream, [&](ww::stream_ref c) {
    saver.before_update(c);
    ww::check(cudaMemsetAsync(s.weights.data(), 0, s.weights.size_bytes(), c.get()),
              "cudaMemsetAsync");
  });
  ww::graph_exec exec{captured};
  for (std::uint64_t step = 1; step <= 20; ++step) {
    s.set(step);
    ww::pending_save const save = saver.save(step, s.stream, s.list);
    exec.launch(s.stream);
    REQUIRE(save.wait());
    REQUIRE(saver.restore(s.list) == step);
    REQUIRE(s.is(step));
  }
}

TEST_CASE("what is not the state's is refused, with the tensor's name") {
  folder const f;
  state s;
  ww::checkpoint_writer saver{f.path()};
  s.set(3);
  REQUIRE(saver.save(3, s.stream, s.list).wait());
  auto const restore = [&](ww::tensor_list const& list) {
    CHECK_THROWS_AS(saver.restore(list), std::invalid_argument);
    try {
      saver.restore(list);
    } catch (std::invalid_argument const& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  using Catch::Contains;
  ww::tensor_list other;
  other.add("weights", s.weights.data(), {3, state::elements / 3}).add("bytes", s.bytes.data(), 7);
  CHECK_THAT(restore(other), Contains("has a tensor 'count', the state has none"));
  other.add("count", s.count.data(), 2);
  CHECK_THAT(restore(other),
             Contains("'count' as I64 of shape [3], the state as I64 of shape [2]"));
  ww::tensor_list type;
  type.add("weights", reinterpret_cast<std::int32_t*>(s.weights.data()), {3, state::elements / 3});
  type.add("bytes", s.bytes.data(), 7).add("count", s.count.data(), 3);
  CHECK_THAT(restore(type), Contains("'weights' as F32 of shape [3x6667], the state as I32"));
  ww::tensor_list more{s.list};
  more.add("another", s.weights.data(), 1);
  CHECK_THAT(restore(more), Contains("has no tensor 'another', the state has one"));
  CHECK(s.is(3));
  CHECK_THROWS_AS((ww::checkpoint_writer{""}), std::invalid_argument);
  CHECK_THROWS_AS((ww::checkpoint_writer{"x", options{}.keep(0)}), std::invalid_argument);
  CHECK_THROWS_AS((ww::checkpoint_writer{"x", options{}.ring(100)}), std::invalid_argument);
  CHECK_THROWS_WITH(
      static_cast<void>(ww::capture(s.stream, [&](ww::stream_ref c) { saver.save(4, c, s.list); })),
      Contains("the stream is capturing"));
}

TEST_CASE("a damaged checkpoint is not taken, and the one before is") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  folder const f;
  state s;
  {
    ww::checkpoint_writer saver{f.path()};
    for (std::uint64_t step : {1, 2}) {
      s.set(step);
      REQUIRE(saver.save(step, s.stream, s.list).wait());
    }
  }
  std::string const data_path = f.newest(".safetensors");
  std::string const manifest_path = f.newest(".manifest");
  std::string const data = content(data_path);
  std::string const manifest = content(manifest_path);
  for (int round = 0; round < 200; ++round) {
    bool const of_data = round % 2 == 0;
    std::string damaged = of_data ? data : manifest;
    std::size_t const at = random() % damaged.size();
    if (round % 4 < 2) {
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 7));
    } else {
      damaged.resize(at);
    }
    if (!of_data && damaged.substr(0, 24) != manifest.substr(0, 24)) continue;  // its version
    write(of_data ? data_path : manifest_path, damaged);
    s.set(9);
    ww::checkpoint_writer saver{f.path()};
    CAPTURE(round, at, of_data);
    REQUIRE(saver.restore(s.list) == 1);
    REQUIRE(s.is(1));
    REQUIRE(saver.skipped().find("step 2: ") == 0);
    write(data_path, data);
    write(manifest_path, manifest);
  }
  std::filesystem::remove(data_path);
  {
    ww::checkpoint_writer saver{f.path()};
    CHECK(saver.restore(s.list) == 1);
    CHECK_THAT(saver.skipped(), Catch::Contains("cannot be opened: No such file or directory"));
    s.set(2);
    REQUIRE(saver.save(2, s.stream, s.list).wait());
    REQUIRE(saver.restore(s.list) == 2);
  }
  std::string newer = manifest;
  newer.replace(newer.find("=1\t"), 2, "=2");
  write(manifest_path, newer);
  CHECK_THROWS_WITH((ww::checkpoint_writer{f.path()}.restore(s.list)),
                    Catch::Contains("is of a newer version of warpwright; update"));
  write(manifest_path, "");
  std::filesystem::resize_file(f.path() + "/step-000000000001.manifest", 5);
  CHECK_THROWS_WITH((ww::checkpoint_writer{f.path()}.restore(s.list)),
                    Catch::Contains("no checkpoint in '" + f.path() + "' can be used") &&
                        Catch::Contains("step 2: ") && Catch::Contains("step 1: "));
}

TEST_CASE("a file of Python's safetensors, and what is none") {
  folder const f;
  std::filesystem::create_directory(f.path());
  std::string const path = f.path() + "/python.safetensors";
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<unsigned char> memory{pool, stream, 64};
  ww::tensor_list list;
  list.add("w", memory.data(), ww::element_type::float16, {2, 3});
  list.add("tab\t\xc3\xbc\xf0\x9f\x98\x80", memory.data() + 16, ww::element_type::float32, 1);
  std::string const good = python_file();
  auto const read = [&](std::string const& text) {
    write(path, text);
    ww::read_safetensors(path, stream, list);
  };
  read(good);
  unsigned char bytes[64];
  memory.copy_to(stream, bytes, 64);
  stream.synchronize();
  CHECK(std::equal(bytes, bytes + 12, good.end() - 12,
                   [](unsigned char a, char b) { return static_cast<char>(a) == b; }));
  CHECK(bytes[18] == 0xc0);
  CHECK(bytes[19] == 0x3f);

  auto const with_header = [&](std::string header) {
    while (header.size() < 224) header += ' ';
    return std::string("\xe0\0\0\0\0\0\0\0", 8) + header + good.substr(good.size() - 32);
  };
  std::string escaped = good;  // the same name
  escaped = with_header(
      "{\"w\":{\"shape\":[2,3],\"dtype\":\"F16\",\"data_offsets\":[20,32]},"
      "\"tab\\u0009\\u00fC\\ud83d\\ude00\" : {\"data_offsets\":[16,20],\"dtype\":\"F32\","
      "\"shape\":[ 1 ]} }");
  CHECK_NOTHROW(read(escaped));
  for (std::string const& bad :
       {std::string{}, std::string{"{}"}, good + "x", good.substr(0, good.size() - 1),
        good.substr(0, 100), "\xff\xff\xff\xff\xff\xff\xff\xff" + good.substr(8), with_header("[]"),
        with_header("{\"w\":{\"dtype\":\"F16\",\"shape\":[2,3]}}"), with_header("{\"w"),
        with_header("{\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[32,20]}}"),
        with_header("{\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[20,31]}}"),
        with_header("{\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[18,32]}}"),
        with_header("{\"tab\\u0009\\u00fC\\ud83d\\ude00\":{\"dtype\":\"F32\",\"shape\":[1],"
                    "\"data_offsets\":[0,4]},"
                    "\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[20,32]},"
                    "\"\\ud83d\\u0041\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"),
        with_header("{\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[20,32]},"
                    "\"w\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[20,32]}}"),
        with_header("{\"w\":{\"dtype\":\"F16\",\"shape\":[99999999999999999999],"
                    "\"data_offsets\":[20,32]}}"),
        with_header("{\"\\ud83d\":{}}"), with_header("{\"\\ud83d\\u0041\":{}}"),
        with_header("{\"\\q\":{}}"), with_header("{} {}")}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(read(bad), ww::checkpoint_error);
  }
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  for (int round = 0; round < 2000; ++round) {  // refused or read, and nothing else
    std::string text = good;
    for (unsigned i = random() % 4; i-- != 0;) {
      text[random() % 232] = "\"{}[]:,\\u0123w\0\xff "[random() % 18];
    }
    if (random() % 4 == 0) text.resize(random() % text.size());
    try {
      read(text);
    } catch (ww::checkpoint_error const&) {
    } catch (std::invalid_argument const&) {
    }
  }
  list.add("z", memory.data(), 1);
  CHECK_THROWS_AS(read(good), std::invalid_argument);
  CHECK_THROWS_WITH(ww::read_safetensors(f.path() + "/none", stream, list),
                    Catch::Contains("cannot be opened: No such file"));
}
