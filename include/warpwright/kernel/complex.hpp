// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Complex numbers in expressions. The elements of an array of std::complex<float>, of
// cuda::std::complex<float>, or of another type with value_type float, real() and imag() that is
// two floats with the real part first, are computed as ew::complex<float>. The headers of those
// types are not included here.
//
//   std::complex<float> const* x = ...;
//   ew::run(s, ew::out(y, n) = ew::conj(ew::in(x, n)) * ew::in(h, n) / n);
//
// Infinite operands and division by 0 may yield NaN parts: products and quotients are the plain
// formulas, without the recovery of infinities in annex G of the C standard. A constant(0.5) or
// another strong double beside a complex number does not compile. + - * / == != take complex and
// real operands. Real operands become float and are not widened to complex: z * r is two products.
#pragma once

#include <warpwright/kernel/detail/numeric/complex.hpp>
