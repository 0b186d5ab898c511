// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The safetensors format: the length of a JSON header in 8 bytes, the header, and the elements.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/system/crc32c.hpp>
#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/tensors/checkpoint_error.hpp>
#include <warpwright/core/detail/text/json_reader.hpp>
#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/core/tensor_list.hpp>

#include <cstring>

#include <sys/types.h>

WARPWRIGHT_BEGIN

namespace detail {

constexpr char const* safetensors_types[] = {"F32", "F16", "BF16", "F64", "I32",
                                             "I64", "U8",  "I8",   "U32"};
constexpr std::size_t largest_safetensors_header = 100'000'000;  // Python's limit

/// The begin of a file for tensors.
/// @throws checkpoint_error  for names that the format does not have
/// @param order  gets the order of their elements in the file: by the size of the elements, so that
///   each array is aligned to its own; of one size by address, so that neighbours are copied at
///   once
WARPWRIGHT_COLD inline std::string safetensors_header(tensor_list const& list, std::uint64_t step,
                                                      array<std::size_t>& order) {
  order.clear();
  for (std::size_t i = 0; i < list.size(); ++i) order.push_back(i);
  sort(order.begin(), order.size(), [&](std::size_t i, std::size_t k) {
    std::size_t const size_i = size_of(list[i].type);
    std::size_t const size_k = size_of(list[k].type);
    return size_i != size_k ? size_i > size_k : list[i].data < list[k].data;
  });
  std::string header(8, '\0');
  header.reserve(150 * list.size() + 200);
  header.append("{\"__metadata__\":{\"format\":\"pt\",\"step\":\"").append(std::to_string(step));
  header += "\"}";
  std::size_t offset = 0;
  for (std::size_t const i : order) {
    tensor const& t = list[i];
    std::string const name = t.name;
    if (name == "__metadata__" || valid_utf8(name) != name) {
      throw checkpoint_error{"a safetensors file cannot have a tensor of the name '" + name + "'"};
    }
    header.append(",").append(json_text(name).str()).append(":{\"dtype\":\"");
    header.append(safetensors_types[static_cast<unsigned>(t.type)]).append("\",\"shape\":[");
    for (std::size_t k = 0; k < t.shape.size(); ++k) {
      header.append(k == 0 ? "" : ",").append(std::to_string(t.shape[k]));
    }
    header.append("],\"data_offsets\":[").append(std::to_string(offset));
    offset += t.bytes();
    header.append(",").append(std::to_string(offset)).append("]}");
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  std::uint64_t const length = header.size() - 8;
  if (length > largest_safetensors_header) {
    throw checkpoint_error{"a header of " + std::to_string(length) +
                           " bytes; safetensors files have at most 100,000,000: use shorter names"};
  }
  std::memcpy(&header[0], &length, 8);  // little-endian, as all systems with CUDA
  return header;
}

/// A tensor of a file.
struct safetensors_entry {
  std::string name;
  std::string type;
  std::string shape;  // as shape_key::to_text()
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Reads a header.
/// @param visit  `void(safetensors_entry const&)`
/// @throws json_error  with the place of what is wrong
template <class Visit>
void parse_safetensors_header(std::string const& header, Visit&& visit) {
  json_reader json{header.data(), header.size()};
  safetensors_entry entry;
  unsigned seen = 0;
  auto const read_field = [&](std::string const& field) {
    if (field == "dtype") {
      entry.type = json.string();
      seen |= 1U;
      return;
    }
    std::size_t count = 0;
    std::uint64_t first[2] = {};
    std::string all;
    json.array([&] {
      std::uint64_t const value = json.integer();
      if (count < 2) first[count] = value;
      all.append(count++ == 0 ? "" : "x").append(std::to_string(value));
    });
    if (field == "shape") {
      entry.shape = all;
      seen |= 2U;
    } else if (field == "data_offsets" && count == 2) {
      entry.begin = first[0];
      entry.end = first[1];
      seen |= 4U;
    } else {
      json.fail("expected dtype, shape or two data_offsets");
    }
  };
  json.object([&](std::string const& name) {
    if (name == "__metadata__") {
      json.object([&](std::string const&) { static_cast<void>(json.string()); });
      return;
    }
    entry.name = name;
    seen = 0;
    json.object(read_field);
    if (seen != 7U || name.find('\0') != std::string::npos || entry.begin > entry.end) {
      json.fail("a tensor without a good name, dtype, shape and data_offsets");
    }
    visit(entry);
  });
  json.expect_end();
}

/// A file that cannot be read now: nothing is known of what is in it.
struct unreadable_file : checkpoint_error {
  unreadable_file(std::string const& text, int number) : checkpoint_error{text}, error{number} {}
  int error;
};

/// A file that is open for reading.
class safetensors_file : noncopyable {
 public:
  /// @throws unreadable_file
  safetensors_file(file_operations const& operations, std::string path)
      : operations_{operations},
        path_{std::move(path)},
        file_{operations.open(operations.context, path_.c_str(), "rbe")} {
    if (file_ == nullptr) fail_by("cannot be opened: ", errno);
    if (::fseeko(file_, 0, SEEK_END) == 0) bytes_ = static_cast<std::uint64_t>(::ftello(file_));
  }
  ~safetensors_file() { static_cast<void>(operations_.close(operations_.context, file_)); }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[noreturn]] void fail(std::string const& problem) const {
    throw checkpoint_error{"'" + path_ + "' " + problem};
  }

  /// @throws unreadable_file; checkpoint_error: it ends before
  void read(std::uint64_t offset, void* data, std::size_t bytes) {
    errno = 0;
    if (::fseeko(file_, static_cast<off_t>(offset), SEEK_SET) == 0 &&
        operations_.read(operations_.context, file_, data, bytes) == bytes) {
      return;
    }
    if (errno != 0) fail_by("cannot be read: ", errno);
    fail("is truncated");
  }

  /// Finds the elements of tensors.
  /// @param strict   whether the file may have no others
  /// @param offsets  gets where in the file each begins
  /// @throws checkpoint_error       if the file is damaged
  /// @throws std::invalid_argument  if it has others
  void find(tensor_list const& list, bool strict, array<std::uint64_t>& offsets,
            source_location where) {
    auto const refuse = [&](std::string const& problem) {
      text const place{where.file(), where.line()};
      throw std::invalid_argument{place.c_str() + (": '" + path_ + "' ") + problem +
                                  "; give the tensors that were saved"};
    };
    std::uint64_t length = 0;
    if (bytes_ >= 8) read(0, &length, 8);
    if (length < 2 || length > bytes_ - 8 || length > largest_safetensors_header) {
      fail("is no safetensors file, or is truncated");
    }
    std::string json(length, '\0');
    read(8, &json[0], json.size());
    offsets.clear();
    offsets.resize(list.size());
    for (std::uint64_t& o : offsets) o = 0;
    std::uint64_t const data = 8 + length;
    std::uint64_t end = 0;
    std::uint64_t sum = 0;
    try {
      parse_safetensors_header(json, [&](safetensors_entry const& e) {
        end = e.end > end ? e.end : end;
        sum += e.end - e.begin;
        tensor const* const t = list.find(e.name.c_str());
        if (t == nullptr) {
          if (strict) refuse("has a tensor '" + e.name + "', the state has none");
          return;
        }
        std::uint64_t& offset = offsets[static_cast<std::size_t>(t - list.begin())];
        if (offset != 0) fail("has the tensor '" + e.name + "' twice");
        offset = data + e.begin;
        std::string const type = safetensors_types[static_cast<unsigned>(t->type)];
        std::string const shape = t->shape.to_text();
        if (e.type != type || e.shape != shape) {
          refuse("has the tensor '" + e.name + "' as " + e.type + " of shape [" + e.shape +
                 "], the state as " + type + " of shape [" + shape + "]");
        }
        if (e.end - e.begin != t->bytes()) {
          fail("has a wrong number of elements for '" + e.name + "'");
        }
      });
    } catch (json_error const& e) {
      fail(std::string{"has a damaged header: "} + e.what());
    }
    if (end != bytes_ - data || sum != end) {
      fail("is truncated, or has bytes that are of no tensor or of two");
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (offsets[i] == 0) {
        refuse(std::string{"has no tensor '"} + list[i].name + "', the state has one");
      }
    }
  }

  /// @param buffer  for the time of the call. @return the checksum of all bytes
  std::uint32_t checksum(void* buffer, std::size_t buffer_bytes) {
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < bytes_; at += buffer_bytes) {
      std::size_t const n = bytes_ - at < buffer_bytes ? bytes_ - at : buffer_bytes;
      read(at, buffer, n);
      crc = crc32c(buffer, n, crc);
    }
    return crc;
  }

  /// Copies elements to the device, through both halves of a buffer by turns.
  void copy(tensor_list const& list, array<std::uint64_t> const& offsets, stream_ref stream,
            unsigned char* buffer, std::size_t buffer_bytes, source_location where) {
    struct wait_at_end {
      stream_ref stream;
      ~wait_at_end() { discard(cudaStreamSynchronize(stream.get())); }
    } const end{stream};
    event used[2] = {where, where};
    std::size_t const part = buffer_bytes / 2;
    unsigned turn = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t done = 0; done < list[i].bytes(); done += part, turn ^= 1U) {
        std::size_t const n = list[i].bytes() - done < part ? list[i].bytes() - done : part;
        used[turn].synchronize(where);
        read(offsets[i] + done, buffer + turn * part, n);
        check(copy_async(static_cast<unsigned char*>(list[i].data) + done, buffer + turn * part, n,
                         cudaMemcpyDefault, stream.get()),
              "cudaMemcpyAsync", where);
        used[turn].record(stream.get(), where);
      }
    }
    stream.synchronize(where);
  }

 private:
  [[noreturn]] void fail_by(char const* what, int error) const {
    throw unreadable_file{"'" + path_ + "' " + what + std::strerror(error), error};
  }

  file_operations const& operations_;
  std::string path_;
  std::FILE* file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
