// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The safetensors format: the length of a JSON header in 8 bytes, the header, and the elements.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/sort.hpp>
#include <warpwright/core/detail/system/crc32c.hpp>
#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/text/json_reader.hpp>
#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/core/tensor_list.hpp>
#include <warpwright/train/detail/checkpoint_error.hpp>

#include <cstring>

#include <sys/types.h>

WARPWRIGHT_BEGIN

namespace detail {

constexpr char const* safetensors_types[] = {"F32", "F16", "BF16", "F64", "I32",
                                             "I64", "U8",  "I8",   "U32"};
constexpr std::size_t largest_safetensors_header = 100'000'000;  // Python's limit

/// The begin of a file for tensors.
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
    header.append(",").append(json_text(t.name).str()).append(":{\"dtype\":\"");
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
  std::memcpy(&header[0], &length, 8);  // little-endian, as all systems with CUDA
  return header;
}

/// A tensor of a file.
struct safetensors_entry {
  std::string name;
  std::string type;
  std::string shape;    // as shape_key::to_text()
  std::string extents;  // of what was read last
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Reads a header.
/// @param visit  `void(safetensors_entry const&)`
/// @throws checkpoint_error  with the place of what is wrong
template <class Visit>
void parse_safetensors_header(std::string const& header, Visit&& visit) {
  json_reader json{header.data(), header.size()};
  safetensors_entry entry;
  auto const numbers = [&](std::uint64_t(&first)[2]) {
    std::size_t count = 0;
    entry.extents.clear();
    json.array([&] {
      std::uint64_t const value = json.integer();
      if (count < 2) first[count] = value;
      entry.extents += (count++ == 0 ? "" : "x") + std::to_string(value);
    });
    return count;
  };
  auto const read_field = [&](std::string const& field) {
    std::uint64_t values[2] = {};
    if (field == "dtype") {
      entry.type = json.string();
    } else if (field == "shape") {
      numbers(values);
      entry.shape = entry.extents;
    } else if (field == "data_offsets" && numbers(values) == 2) {
      entry.begin = values[0];
      entry.end = values[1];
    } else {
      json.fail("expected dtype, shape or two data_offsets");
    }
  };
  try {
    json.object([&](std::string const& name) {
      if (name == "__metadata__") {
        json.object([&](std::string const&) { static_cast<void>(json.string()); });
        return;
      }
      entry = safetensors_entry{};
      entry.name = name;
      json.object(read_field);
      if (entry.type.empty()) json.fail("a tensor has no dtype");
      visit(entry);
    });
    json.expect_end();
  } catch (json_error const& e) {
    throw checkpoint_error{std::string{"has a damaged header: "} + e.what()};
  }
}

/// A file that is open for reading.
class safetensors_file : noncopyable {
 public:
  safetensors_file(file_operations const& operations, char const* path)
      : operations_{operations}, file_{operations.open(operations.context, path, "rbe")} {
    if (file_ == nullptr) {
      throw checkpoint_error{std::string{"cannot be opened: "} + std::strerror(errno)};
    }
    if (::fseeko(file_, 0, SEEK_END) == 0) bytes_ = static_cast<std::uint64_t>(::ftello(file_));
  }
  ~safetensors_file() { static_cast<void>(operations_.close(operations_.context, file_)); }

  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  /// @throws checkpoint_error  if there are not so many
  void read(std::uint64_t offset, void* data, std::size_t bytes) {
    errno = 0;
    if (::fseeko(file_, static_cast<off_t>(offset), SEEK_SET) != 0 ||
        operations_.read(operations_.context, file_, data, bytes) != bytes) {
      throw checkpoint_error{(text{"cannot be read at byte "} + offset + (errno == 0 ? "" : ": ") +
                              (errno == 0 ? "" : std::strerror(errno)))
                                 .c_str()};
    }
  }

  /// Finds the elements of tensors.
  /// @param strict   whether the file may have no others
  /// @param offsets  gets where in the file each begins
  /// @throws checkpoint_error       if the file is damaged
  /// @throws std::invalid_argument  if it has others. @param name  for the text
  void find(tensor_list const& list, bool strict, array<std::uint64_t>& offsets, char const* name,
            source_location where) {
    auto const refuse = [&](text const& problem) {
      throw_invalid_argument(text{"'"} + name + "' " + problem, where);
    };
    std::uint64_t length = 0;
    if (bytes_ >= 8) read(0, &length, 8);
    if (length < 2 || length > bytes_ - 8 || length > largest_safetensors_header) {
      throw checkpoint_error{"is no safetensors file, or is truncated"};
    }
    std::string json(length, '\0');
    read(8, &json[0], json.size());
    offsets.clear();
    offsets.resize(list.size());
    for (std::uint64_t& o : offsets) o = 0;
    std::uint64_t const data = 8 + length;
    std::uint64_t end = 0;
    std::string twice;
    parse_safetensors_header(json, [&](safetensors_entry const& e) {
      end = e.end > end ? e.end : end;
      tensor const* const t = list.find(e.name.c_str());
      if (t == nullptr) {
        if (strict) refuse(text{"has a tensor '"} + e.name.c_str() + "', the state has none");
        return;
      }
      std::uint64_t& offset = offsets[static_cast<std::size_t>(t - list.begin())];
      if (offset != 0) throw checkpoint_error{"has the tensor '" + e.name + "' twice"};
      offset = data + e.begin;
      char const* const type = safetensors_types[static_cast<unsigned>(t->type)];
      std::string const shape = t->shape.to_text();
      if (e.type != type || e.shape != shape) {
        refuse(text{"has the tensor '"} + t->name + "' as " + e.type.c_str() + " of shape [" +
               e.shape.c_str() + "], the state as " + type + " of shape [" + shape.c_str() + "]");
      }
      if (e.end - e.begin != t->bytes()) {
        throw checkpoint_error{"has a wrong number of elements for '" + e.name + "'"};
      }
    });
    if (end != bytes_ - data)
      throw checkpoint_error{"is truncated, or has bytes behind its tensors"};
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (offsets[i] == 0) refuse(text{"has no tensor '"} + list[i].name + "', the state has one");
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
  file_operations const& operations_;
  std::FILE* file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
