// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_support.hpp"

#include <warpwright/core/detail/system/crc32c.hpp>
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

options quiet() {
  return options{}.on_failure([](std::string const&) {});
}

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
  auto const steps = [&] {
    std::vector<std::string> all;
    for (std::string const& name : f.names()) {
      if (name.size() == 26 && name.substr(17) == ".manifest") all.push_back(name.substr(0, 17));
    }
    return all;
  };
  CHECK(f.names().size() == 4);
  CHECK(steps() == std::vector<std::string>{"step-000000000004", "step-000000000005"});
  std::vector<std::string> const others{"step-by-step.txt",
                                        "step-1000.png",
                                        "step-5-notes.txt",
                                        "step-000000000001.bestbest.safetensors",
                                        "step-000000000001.notes.tmp",
                                        "step-000000000001.md",
                                        "step-7"};
  for (std::string const& name : others) write(f.path() + '/' + name, "");
  // As a process that was killed leaves:
  write(f.path() + "/step-000000000005.1.0xf0.0.tmp", "");
  write(f.path() + "/step-000000000006.manifest.1.0xf0.0.tmp", "");
  write(f.path() + "/step-000000000003.0123abcd.safetensors", "");
  ww::checkpoint_writer saver{f.path(), quiet().keep(2)};
  CHECK(saver.restore(s.list) == 5);
  CHECK(s.is(50));
  REQUIRE(saver.save(7, s.stream, s.list).wait());
  CHECK(steps() == std::vector<std::string>{"step-000000000005", "step-000000000007"});
  CHECK(f.names().size() == 4 + others.size());
  write(f.newest("7.manifest"), "damaged");
  CHECK(saver.restore(s.list) == 5);
  REQUIRE(saver.save(6, s.stream, s.list).wait());
  CHECK(steps() == std::vector<std::string>{"step-000000000005", "step-000000000006"});
  write(f.newest("6.manifest"), "damaged");
  CHECK(saver.restore(s.list) == 5);
  REQUIRE(saver.save(8, s.stream, s.list).wait());  // a damaged one does not count
  CHECK(steps() == std::vector<std::string>{"step-000000000005", "step-000000000008"});
  CHECK(f.names().size() == 4 + others.size());
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
    write(of_data ? data_path : manifest_path, damaged);
    s.set(9);
    ww::checkpoint_writer saver{f.path(), quiet()};
    CAPTURE(round, at, of_data);
    REQUIRE(saver.restore(s.list) == 1);
    REQUIRE(s.is(1));
    REQUIRE(saver.skipped().find("step 2: ") == 0);
    write(data_path, data);
    write(manifest_path, manifest);
  }
  std::filesystem::remove(data_path);
  {
    std::string text;
    ww::checkpoint_writer saver{f.path(),
                                options{}.on_failure([&](std::string const& t) { text = t; })};
    CHECK(saver.restore(s.list) == 1);
    CHECK_THAT(text, Catch::Contains("went on from step 1, and not from a later one"));
    CHECK_THAT(saver.skipped(), Catch::Contains("cannot be opened: No such file or directory"));
    s.set(2);
    REQUIRE(saver.save(2, s.stream, s.list).wait());
    REQUIRE(saver.restore(s.list) == 2);
    CHECK_FALSE(saver.save(1, s.stream, s.list).wait());  // 2 is good: it does not go
    CHECK_THAT(saver.error(), Catch::Contains("has a checkpoint of step 2, which is later"));
  }
  {
    folder const lost;
    std::filesystem::create_directory(lost.path());
    write(lost.path() + f.newest(".safetensors").substr(f.path().size()), data);
    ww::checkpoint_writer saver{lost.path(), quiet()};
    CHECK(saver.restore(s.list) == 0);
    CHECK_THAT(saver.skipped(), Catch::Contains("has no manifest"));
    REQUIRE(saver.save(1, s.stream, s.list).wait());
    CHECK(lost.names().size() == 3);  // it is of step 2, and stays for now
  }
  std::string newer = manifest;
  newer.replace(newer.find("=1\t"), 2, "=2");
  write(manifest_path, newer);  // damaged
  CHECK(ww::checkpoint_writer{f.path(), quiet()}.restore(s.list) == 1);
  newer.resize(newer.find("crc32c_of_this_line="));
  std::uint32_t const crc = ww::detail::crc32c(newer.data(), newer.size());
  write(manifest_path, newer + "crc32c_of_this_line=" + std::to_string(crc) + "\t\n");
  CHECK_THROWS_WITH((ww::checkpoint_writer{f.path()}.restore(s.list)),
                    Catch::Contains("is of a newer version of warpwright; update"));
  write(manifest_path, "");
  std::filesystem::resize_file(f.path() + "/step-000000000001.manifest", 5);
  CHECK_THROWS_WITH((ww::checkpoint_writer{f.path()}.restore(s.list)),
                    Catch::Contains("no checkpoint in '" + f.path() + "' can be used") &&
                        Catch::Contains("step 2: ") && Catch::Contains("step 1: "));
}

TEST_CASE("names that a safetensors file cannot have are refused when it is saved") {
  folder const f;
  state s;
  ww::checkpoint_writer saver{f.path(), quiet()};
  for (std::string const name : {"__metadata__", "\xff", "a\xc3", "\xed\xa0\x80"}) {
    ww::tensor_list list;
    list.add(name, s.weights.data(), 1);
    CHECK_FALSE(saver.save(1, s.stream, list).wait());
    CHECK_THAT(saver.error(), Catch::Contains("cannot have a tensor of the name '" + name + "'"));
  }
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

  // A header of two good tensors and another text, which is of the last 12 bytes.
  auto const with = [&](std::string const& last) {
    std::string header =
        "{\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"tab\\u0009\\u00fC\\ud83d\\ude00\" : {\"data_offsets\":[16,20],\"dtype\":\"F32\","
        "\"shape\":[ 1 ]}," +
        last + " }";
    header.append(320 - header.size(), ' ');
    return std::string("\x40\x01\0\0\0\0\0\0", 8) + header + good.substr(good.size() - 32);
  };
  auto const w = [](std::string const& offsets) {
    return "\"w\":{\"shape\":[2,3],\"dtype\":\"F16\",\"data_offsets\":[" + offsets + "]}";
  };
  auto const byte = [](std::string const& name) {
    return ",\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[32,32]}";
  };
  CHECK_NOTHROW(read(with(w("20,32") + byte("\\ud83d\\ude01"))));
  for (std::string const& bad :
       {std::string{},
        std::string{"{}"},
        good + "x",
        good.substr(0, good.size() - 1),
        good.substr(0, 100),
        "\xff\xff\xff\xff\xff\xff\xff\xff" + good.substr(8),
        with(""),
        with("[]"),
        with("\"w"),
        with("\"w\":{\"dtype\":\"F16\",\"shape\":[2,3]}"),
        with(w("32,20")),
        with(w("20,31")),
        with(w("18,32")),
        with(w("19,31")),
        with(w("18446744073709551612,8")),
        with(w("20,32") + ',' + w("20,32")),
        with(w("20,99999999999999999999")),
        with(w("20,32") + byte("\\ud83d")),
        with(w("20,32") + byte("\\ud83d\\u0041")),
        with(w("20,32") + byte("\\q")),
        with(w("20,32") + byte("a\\u0000b")),
        with(w("20,32") + "} {"),
        with(w("20,32") + ",\"x\":{\"dtype\":\"U8\",\"data_offsets\":[32,32]}"),
        with(w("20,32") + ",\"x\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}")}) {
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
