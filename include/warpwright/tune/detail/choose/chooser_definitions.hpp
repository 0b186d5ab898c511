// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/chooser.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/tune/detail/choose/choice_record.hpp>

#include <string>
#include <utility>
#include <vector>

WARPWRIGHT_BEGIN

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE chooser::chooser(std::string tag,
                                                         choose_options const& options,
                                                         device_id device, source_location where)
    : options_{options}, device_{device} {
  key_.tag = std::move(tag);
  check_tag(where);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE chooser::chooser(std::string tag, tuning_store store,
                                                         choose_options const& options,
                                                         device_id device, source_location where)
    : options_{options}, device_{device}, key_{tuning_key::of_device(device, where)} {
  key_.kind = "choice";
  key_.tag = std::move(tag);
  check_tag(where);
  stores_.push_back(std::move(store));
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void chooser::check_tag(source_location where) const {
  if (!key_.tag.empty()) return;
  detail::throw_invalid_argument(
      "chooser: the tag is empty; name the operation, as another one's choice would be found",
      where);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void chooser::check_recursion(source_location where) const {
  if (measuring_.load(detail::memory_order::relaxed) != pthread_self()) return;
  detail::throw_invalid_argument(
      detail::text{"chooser '"} + key_.tag.c_str() +
          "': a candidate calls the chooser by which it is measured; use a chooser of its own "
          "for what it calls",
      where);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void chooser::check_device(stream_ref stream,
                                                                   source_location where) const {
  device_id const device = detail::device_of_any(stream, where);
  if (device == device_) return;
  detail::throw_invalid_argument(detail::text{"chooser '"} + key_.tag.c_str() +
                                     "': the stream is of device " + device.value() +
                                     ", the chooser's device is " + device_.value() +
                                     "; make one chooser for each device",
                                 where);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void chooser::check_count(entry const* e, std::size_t count,
                                                                  source_location where) {
  if (e == nullptr || e->candidates == count) return;
  detail::throw_invalid_argument(
      detail::text{"chooser: "} + count + " candidates for a shape that had " + e->candidates +
          " before; pass the same ones in each call, or use another chooser",
      where);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_match chooser::read(shape_key const& shape,
                                                                   char const* const* names,
                                                                   std::size_t count, choice& made,
                                                                   std::size_t& second) const {
  tuning_match match = tuning_match::none;
  std::vector<std::string> warnings;
  if (!stores_.empty()) {
    tuning_lookup found = stores_.front().try_find(key_of(shape));
    warnings = std::move(found.warnings);
    if (found.match != tuning_match::none &&
        detail::read_choice(found.record, names, count, made, second)) {
      match = found.match;
    }
  }
  if (match == tuning_match::none) made = choice{};
  if (match == tuning_match::exact) made.source = choice_source::stored;
  made.warnings = std::move(warnings);
  return match;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void chooser::put(shape_key const& shape,
                                                          choice& made) const {
  tuning_record record = detail::record_of(made);
  record.key = key_of(shape);
  tuning_put_result result = stores_.front().try_put(record);
  if (!result.stored) made.warnings.push_back(std::move(result.problem));
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE choice chooser::guess(shape_key const& shape,
                                                              char const* const* names,
                                                              std::size_t count, bool forbidden,
                                                              source_location where) const {
  detail::check_choose_arguments(names, count, options_, where);
  choice made;
  std::size_t second = detail::no_candidate;
  tuning_match const match = read(shape, names, count, made, second);
  if (match == tuning_match::exact) return made;
  std::string const why = forbidden ? "measuring is not allowed" : "the stream was capturing";
  if (match == tuning_match::prior) {
    made.reason = why + ": the stored choice for other versions";
    return made;
  }
  for (std::size_t i = 0; i < count; ++i) {
    made.candidates.emplace_back();
    made.candidates.back().name = names[i];
  }
  made.name = names[0];
  made.reason = why + ": the first candidate, not measured";
  return made;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE tuning_key chooser::key_of(shape_key const& shape) const {
  tuning_key key = key_;
  key.objective = options_.is_cold() ? "fastest cold for shape " : "fastest for shape ";
  key.objective += shape.to_text();
  return key;
}

WARPWRIGHT_END
