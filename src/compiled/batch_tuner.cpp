// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/detail/batch_tuner_definitions.hpp>

WARPWRIGHT_BEGIN

template detail::search_settings batch_tuner::validated(detail::search_settings, source_location);
template tune_result batch_tuner::finish(detail::search_settings const&,
                                         detail::search_hooks const&, stream_ref);

WARPWRIGHT_END
