// What kernels need and WGSL has no words for. Numbers that are not finite come from functions, as constants may not be so.

fn kl_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }
fn kl_is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }

// Halves and bf16 are numbers that are rounded.
fn kl_to_f16(x: f32) -> u32 { return pack2x16float(vec2<f32>(x, 0.0)) & 0xffffu; }
fn kl_f16(x: f32) -> f32 { return unpack2x16float(kl_to_f16(x)).x; }
fn kl_to_bf16(x: f32) -> u32 {
  let b = bitcast<u32>(x);
  return select((b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u, (b >> 16u) | 64u, kl_is_nan(x));
}
fn kl_bf16(x: f32) -> f32 { return bitcast<f32>(kl_to_bf16(x) << 16u); }

fn kl_max_f(a: f32, b: f32) -> f32 { return select(b, a, a > b || kl_is_nan(a)); }
fn kl_min_f(a: f32, b: f32) -> f32 { return select(b, a, a < b || kl_is_nan(a)); }
fn kl_floor_div(a: i32, b: i32) -> i32 { let q = a / b; return select(q, q - 1, a % b < 0); }
fn kl_floor_mod(a: i32, b: i32) -> i32 { let r = a % b; return select(r, r + b, r < 0); }
fn kl_int(x: f32) -> i32 { return select(0, i32(x), x >= -2147483648.0 && x < 2147483648.0); }
fn kl_round(x: f32) -> f32 { let t = trunc(x); return select(t, t + sign(x), abs(x - t) >= 0.5); }
fn kl_exp2(x: f32) -> f32 {
  let e = i32(x);
  if (e > 127) { return kl_bits(0x7f800000u); }
  if (e >= -126) { return kl_bits(u32(e + 127) << 23u); }
  return kl_bits(select(0u, 1u << u32(e + 149), e >= -149));
}

// Sine and cosine, as those of a language may be off by 2^-11: the quarter of a turn that x lies in, and polynomials from
// -pi/4 to pi/4 (Cephes' coefficients).
fn kl_sine(r: f32) -> f32 {
  let z = r * r;
  return r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
}
fn kl_cosine(r: f32) -> f32 {
  let z = r * r;
  return 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5));
}
fn kl_quarters(x: f32, more: i32) -> f32 {
  let n = kl_round(x * 0.636619772);
  let r = ((x - n * 1.5703125) - n * 4.837512969970703e-4) - n * 7.549789948768648e-8;
  let quarter = (i32(n) + more) & 3;
  let y = select(kl_sine(r), kl_cosine(r), (quarter & 1) == 1);
  return select(y, -y, quarter >= 2);
}
fn kl_sin(x: f32) -> f32 { return kl_quarters(x, 0); }
fn kl_cos(x: f32) -> f32 { return kl_quarters(x, 1); }

// Four products of bytes, those of codes signed or not.
fn kl_dot4_i8(sum: i32, codes: u32, values: u32) -> i32 { return sum + dot4I8Packed(codes, values); }
fn kl_dot4_u8(sum: i32, codes: u32, values: u32) -> i32 {
  return sum + dot4I8Packed(codes ^ 0x80808080u, values) + (dot4I8Packed(0x01010101u, values) << 7u);
}

// Entries of a table of 16 bytes.
fn kl_lookup(table: vec4<u32>, i: u32) -> u32 { return (table[(i >> 2u) & 3u] >> ((i & 3u) << 3u)) & 0xffu; }
// Four at a time: of entries whose places differ in one bit, a mask of the bytes where it is set chooses one, bit by bit.
fn kl_lookup4(table: vec4<u32>, i: u32) -> u32 {
  let odd = kl_where(i, 0u);
  let two = kl_where(i, 1u);
  let four = kl_where(i, 2u);
  let low = kl_chosen(kl_of_four(table.x, odd, two), kl_of_four(table.y, odd, two), four);
  let high = kl_chosen(kl_of_four(table.z, odd, two), kl_of_four(table.w, odd, two), four);
  return kl_chosen(low, high, kl_where(i, 3u));
}
fn kl_of_four(entries: u32, odd: u32, two: u32) -> u32 {
  let low = kl_chosen(kl_in_all(entries), kl_in_all(entries >> 8u), odd);
  let high = kl_chosen(kl_in_all(entries >> 16u), kl_in_all(entries >> 24u), odd);
  return kl_chosen(low, high, two);
}
fn kl_where(bytes: u32, bit: u32) -> u32 { return ((bytes >> bit) & 0x01010101u) * 0xffu; }
fn kl_chosen(a: u32, b: u32, mask: u32) -> u32 { return a ^ ((a ^ b) & mask); }
fn kl_in_all(byte: u32) -> u32 { return (byte & 0xffu) * 0x01010101u; }

// Four entries of a table in which bit 3 of a place is the sign, and the size place + x b0 b1 + y b0 b2 + z b1 b2 + w b0 b1 b2 of
// the bits below. Minus nothing is nothing, or it would carry into the next entry.
fn kl_signed4(more: vec4<u32>, i: u32) -> u32 {
  let i1 = i >> 1u;
  let i2 = i >> 2u;
  let both = i & i1;
  let size = (i & 0x07070707u) + (both & 0x01010101u) * more.x + (i & i2 & 0x01010101u) * more.y
    + (i1 & i2 & 0x01010101u) * more.z + (both & i2 & 0x01010101u) * more.w;
  let minus = (i >> 3u) & (i | i1 | i2) & 0x01010101u;
  return (size ^ (minus * 0xffu)) + minus;
}
