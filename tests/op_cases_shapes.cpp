// Case table: views, copies and indexing.
#include "op_case_table.h"

namespace hearth::testing {

void add_shapes(Table& table) {
  const Shape cube{3, 4, 5};
  table.moving(
      "reshape/merge", {{cube}},
      [](const Tensors& in) {
        return reshape(in[0], {12, -1});
      },
      [](const Arrays& in) {
        return reference::reshape(in[0], {12, 5});
      });
  table.moving(
      "reshape/split", {{{6, 4}}},
      [](const Tensors& in) {
        return reshape(in[0], {2, 3, 2, 2});
      },
      [](const Arrays& in) {
        return reference::reshape(in[0], {2, 3, 2, 2});
      });
  table.moving(
      "reshape/to_scalar", {{{1, 1}}}, [](const Tensors& in) { return reshape(in[0], {}); },
      [](const Arrays& in) { return reference::reshape(in[0], {}); });
  table.moving(
      "reshape/empty", {{{0, 4}}},
      [](const Tensors& in) {
        return reshape(in[0], {2, 0, 3});
      },
      [](const Arrays&) {
        return Array{{2, 0, 3}, {}};
      });
  table.moving(
      "flatten/middle", {{{2, 3, 4, 5}}}, [](const Tensors& in) { return flatten(in[0], 1, 2); },
      [](const Arrays& in) {
        return reference::reshape(in[0], {2, 12, 5});
      });
  table.moving(
      "flatten/scalar", {{{}}}, [](const Tensors& in) { return flatten(in[0]); },
      [](const Arrays& in) { return reference::reshape(in[0], {1}); });
  table.moving(
      "transpose/ends", {{cube}}, [](const Tensors& in) { return transpose(in[0], 0, -1); },
      [](const Arrays& in) {
        return reference::permute(in[0], {2, 1, 0});
      });
  table.moving(
      "transpose/then_reshape", {{cube}},
      [](const Tensors& in) { return transpose(in[0], 0, 1).reshape({-1}); },
      [](const Arrays& in) {
        return reference::reshape(reference::permute(in[0], {1, 0, 2}), {60});
      });
  table.moving(
      "permute/cycle", {{cube}},
      [](const Tensors& in) {
        return permute(in[0], {2, 0, 1});
      },
      [](const Arrays& in) {
        return reference::permute(in[0], {2, 0, 1});
      });
  for (auto size : edge_sizes) {
    table.moving(
        "transpose/copied_" + std::to_string(size), {{{3, size}}},
        [](const Tensors& in) { return contiguous(in[0].t()); },
        [](const Arrays& in) {
          return reference::permute(in[0], {1, 0});
        });
    table.moving(
        "flip/" + std::to_string(size), {{{size}}}, [](const Tensors& in) { return flip(in[0], {0}); },
        [size](const Arrays& in) { return pick(in[0], 0, size - 1, size, -1); });
    table.moving(
        "concat/" + std::to_string(size), {{{2, size}}, {{2, 3}}},
        [](const Tensors& in) { return hearth::concat(in, 1); },
        [](const Arrays& in) { return reference::concat(in, 1); });
    table.moving(
        "copy/" + std::to_string(size), {{{size}}}, [](const Tensors& in) { return copy(in[0]); },
        [](const Arrays& in) { return in[0]; });
  }
  table.moving(
      "squeeze/all", {{{1, 3, 1, 4, 1}}}, [](const Tensors& in) { return squeeze(in[0]); },
      [](const Arrays& in) {
        return reference::reshape(in[0], {3, 4});
      });
  table.moving(
      "squeeze/some", {{{1, 3, 1, 4, 1}}},
      [](const Tensors& in) {
        return squeeze(in[0], {0, -1});
      },
      [](const Arrays& in) {
        return reference::reshape(in[0], {3, 1, 4});
      });
  table.moving(
      "unsqueeze/front", {{{3, 4}}}, [](const Tensors& in) { return unsqueeze(in[0], 0); },
      [](const Arrays& in) { return insert_axis(in[0], 0); });
  table.moving(
      "unsqueeze/end", {{{3, 4}}}, [](const Tensors& in) { return unsqueeze(in[0], -1); },
      [](const Arrays& in) { return insert_axis(in[0], -1); });
  table.moving(
      "broadcast_to/new_axis", {{{3, 1}}},
      [](const Tensors& in) {
        return broadcast_to(in[0], {2, 3, 4});
      },
      [](const Arrays& in) {
        return generate(Shape{2, 3, 4}, [&](const Position& p) { return in[0].broadcast_at(p); });
      });
  table.moving(
      "broadcast_to/scalar", {{{}}},
      [](const Tensors& in) {
        return broadcast_to(in[0], {3, 2});
      },
      [](const Arrays& in) {
        return generate(Shape{3, 2}, [&](const Position&) { return in[0].values[0]; });
      });
  table.moving(
      "broadcast_to/empty", {{{1, 3}}},
      [](const Tensors& in) {
        return broadcast_to(in[0], {0, 3});
      },
      [](const Arrays&) {
        return Array{{0, 3}, {}};
      });

  const auto o = Slice::open;
  table.moving(
      "slice/offset", {{cube}},
      [](const Tensors& in) {
        return slice(in[0], {{1, 3}, {1, -1}});
      },
      [](const Arrays& in) { return pick(pick(in[0], 0, 1, 2), 1, 1, 2); });
  table.moving(
      "slice/step", {{{10, 3}}},
      [=](const Tensors& in) {
        return slice(in[0], {{1, o, 3}});
      },
      [](const Arrays& in) { return pick(in[0], 0, 1, 3, 3); });
  table.moving(
      "slice/reverse", {{{10, 3}}},
      [=](const Tensors& in) {
        return slice(in[0], {{o, o, -1}, {o, o, -1}});
      },
      [](const Arrays& in) { return pick(pick(in[0], 0, 9, 10, -1), 1, 2, 3, -1); });
  table.moving(
      "slice/negative_step", {{{10}}},
      [](const Tensors& in) {
        return slice(in[0], {{8, 1, -3}});
      },
      [](const Arrays& in) { return pick(in[0], 0, 8, 3, -3); });
  table.moving(
      "slice/negative_step_open", {{{10}}},
      [=](const Tensors& in) {
        return slice(in[0], {{-2, o, -2}});
      },
      [](const Arrays& in) { return pick(in[0], 0, 8, 5, -2); });
  table.moving(
      "slice/beyond_the_end", {{{5}}},
      [](const Tensors& in) {
        return slice(in[0], {{3, 99}});
      },
      [](const Arrays& in) { return pick(in[0], 0, 3, 2); });
  table.moving(
      "slice/empty", {{{5}}},
      [](const Tensors& in) {
        return slice(in[0], {{3, 1}});
      },
      [](const Arrays&) {
        return Array{{0}, {}};
      });
  table.moving(
      "slice/of_slice", {{{20, 4}}},
      [=](const Tensors& in) {
        return slice(slice(in[0], {{2, 18, 2}}), {{1, o, 3}, {o, o, -2}});
      },
      [](const Arrays& in) { return pick(pick(pick(in[0], 0, 2, 8, 2), 0, 1, 3, 3), 1, 3, 2, -2); });
  table.moving(
      "narrow/middle", {{cube}}, [](const Tensors& in) { return narrow(in[0], 1, 1, 2); },
      [](const Arrays& in) { return pick(in[0], 1, 1, 2); });
  table.moving(
      "select/last", {{cube}}, [](const Tensors& in) { return select(in[0], 1, -1); },
      [](const Arrays& in) {
        return reference::reshape(pick(in[0], 1, 3, 1), {3, 5});
      });
  table.moving(
      "subscript/row", {{cube}}, [](const Tensors& in) { return in[0][-2]; },
      [](const Arrays& in) {
        return reference::reshape(pick(in[0], 0, 1, 1), {4, 5});
      });
  table.moving(
      "flip/two_axes", {{cube}},
      [](const Tensors& in) {
        return flip(in[0], {0, -1});
      },
      [](const Arrays& in) { return pick(pick(in[0], 0, 2, 3, -1), 2, 4, 5, -1); });
  for (std::int64_t shift : {0, 1, -1, 4, 7, -13})
    table.moving(
        "roll/" + std::to_string(shift), {{cube}}, [=](const Tensors& in) { return roll(in[0], shift, 1); },
        [=](const Arrays& in) {
          return generate(in[0].shape, [&](Position p) {
            p[1] = ((p[1] - shift) % 4 + 4) % 4;
            return in[0].at(p);
          });
        });
  table.moving(
      "tile/both", {{{2, 3}}},
      [](const Tensors& in) {
        return tile(in[0], {2, 3});
      },
      [](const Arrays& in) {
        return generate(Shape{4, 9}, [&](const Position& p) { return in[0].at({p[0] % 2, p[1] % 3}); });
      });
  table.moving(
      "tile/more_repeats", {{{3}}},
      [](const Tensors& in) {
        return tile(in[0], {2, 2});
      },
      [](const Arrays& in) {
        return generate(Shape{2, 6}, [&](const Position& p) { return in[0].at({p[1] % 3}); });
      });
  table.moving(
      "repeat_interleave/middle", {{cube}}, [](const Tensors& in) { return repeat_interleave(in[0], 3, 1); },
      [](const Arrays& in) {
        return generate(Shape{3, 12, 5}, [&](const Position& p) { return in[0].at({p[0], p[1] / 3, p[2]}); });
      });
  for (std::int64_t axis : {0, 1, -1}) {
    Shape other = cube, third = cube;
    other[axis < 0 ? 2 : static_cast<std::size_t>(axis)] = 2;
    third[axis < 0 ? 2 : static_cast<std::size_t>(axis)] = 0;
    table.moving(
        "concat/axis_" + std::to_string(axis), {{cube}, {other}, {third}, {other}},
        [=](const Tensors& in) { return hearth::concat(in, axis); },
        [=](const Arrays& in) { return reference::concat(in, axis); });
    table.moving(
        "stack/axis_" + std::to_string(axis), {{{3, 4}}, {{3, 4}}, {{3, 4}}},
        [=](const Tensors& in) { return stack(in, axis); },
        [=](const Arrays& in) {
          return reference::concat(
              {insert_axis(in[0], axis), insert_axis(in[1], axis), insert_axis(in[2], axis)}, axis);
        });
  }
  table.moving(
      "split/last_piece", {{{2, 7}}}, [](const Tensors& in) { return split(in[0], 3, 1).at(2); },
      [](const Arrays& in) { return pick(in[0], 1, 6, 1); });
  table.moving(
      "split/joined", {{{7, 2}}}, [](const Tensors& in) { return hearth::concat(split(in[0], 3, 0), 0); },
      [](const Arrays& in) { return in[0]; });
  table.moving(
      "chunk/middle", {{{2, 7}}}, [](const Tensors& in) { return chunk(in[0], 3, 1).at(1); },
      [](const Arrays& in) { return pick(in[0], 1, 3, 3); });
  table.moving(
      "pad/all_sides", {{{2, 3}}},
      [](const Tensors& in) {
        return pad(in[0], {{1, 2}, {0, 3}}, 7);
      },
      [](const Arrays& in) {
        return generate(Shape{5, 6}, [&](const Position& p) {
          return p[0] >= 1 && p[0] < 3 && p[1] < 3 ? in[0].at({p[0] - 1, p[1]}) : 7;
        });
      });
  table.moving(
      "pad/empty", {{{0, 3}}},
      [](const Tensors& in) {
        return pad(in[0], {{1, 1}, {0, 0}}, 2);
      },
      [](const Arrays&) {
        return generate(Shape{2, 3}, [](const Position&) { return 2; });
      });
  for (std::int64_t diagonal : {-1, 0, 2}) {
    table.moving(
        "tril/" + std::to_string(diagonal), {{{2, 4, 5}}},
        [=](const Tensors& in) { return tril(in[0], diagonal); },
        [=](const Arrays& in) {
          return generate(in[0].shape,
                          [&](const Position& p) { return p[2] - p[1] <= diagonal ? in[0].at(p) : 0; });
        });
    table.moving(
        "triu/" + std::to_string(diagonal), {{{2, 4, 5}}},
        [=](const Tensors& in) { return triu(in[0], diagonal); },
        [=](const Arrays& in) {
          return generate(in[0].shape,
                          [&](const Position& p) { return p[2] - p[1] >= diagonal ? in[0].at(p) : 0; });
        });
  }
  table.moving(
      "diagonal/wide", {{{2, 3, 5}}}, [](const Tensors& in) { return diagonal(in[0]); },
      [](const Arrays& in) {
        return generate(Shape{2, 3}, [&](const Position& p) { return in[0].at({p[0], p[1], p[1]}); });
      });
  table.moving(
      "where/broadcast", {{{3, 1}, {0, 1}, Kind::condition}, {{3, 4}}, {{4}}},
      [](const Tensors& in) { return where(in[0], in[1], in[2]); },
      [](const Arrays& in) {
        return generate(Shape{3, 4}, [&](const Position& p) {
          return in[0].broadcast_at(p) != 0 ? in[1].at(p) : in[2].broadcast_at(p);
        });
      });
  table.moving(
      "masked_fill/broadcast", {{{3, 4}}, {{4}, {0, 1}, Kind::condition}},
      [](const Tensors& in) { return masked_fill(in[0], in[1], 5); },
      [](const Arrays& in) {
        return generate(Shape{3, 4},
                        [&](const Position& p) { return in[1].broadcast_at(p) != 0 ? 5 : in[0].at(p); });
      });
  table.moving(
      "clamp/both", {{{5, 7}}}, [](const Tensors& in) { return clamp(in[0], -1, 1); },
      [](const Arrays& in) { return map(in[0], [](double x) { return std::clamp(x, -1.0, 1.0); }); });
  table.moving(
      "clamp/low", {{{5, 7}}}, [](const Tensors& in) { return clamp(in[0], 0, {}); },
      [](const Arrays& in) { return map(in[0], [](double x) { return std::max(x, 0.0); }); });
}

void add_indexing(Table& table) {
  const auto indices = [](Shape shape, double size) { return Input{shape, {-size, size}, Kind::index}; };
  for (std::int64_t axis : {0, 1, -1}) {
    const Shape cube{3, 4, 5};
    const auto a = static_cast<std::size_t>(axis < 0 ? 2 : axis);
    const auto size = cube[a];
    const auto name = std::to_string(axis);
    table.moving(
        "take/axis_" + name, {{cube}, indices({2, 3}, static_cast<double>(size))},
        [=](const Tensors& in) { return take(in[0], in[1], axis); },
        [=](const Arrays& in) {
          Shape shape(cube.begin(), cube.begin() + static_cast<std::ptrdiff_t>(a));
          for (std::int64_t s : {2, 3}) shape.push_back(s);
          for (auto i = a + 1; i < 3; ++i) shape.push_back(cube[i]);
          return generate(shape, [&](const Position& p) {
            Position from(3);
            for (std::size_t i = 0; i < a; ++i) from[i] = p[i];
            from[a] = wrap_index(in[1].at({p[a], p[a + 1]}), size);
            for (auto i = a + 1; i < 3; ++i) from[i] = p[i + 1];
            return in[0].at(from);
          });
        });
    Shape few = cube;
    few[a] = 6;
    const auto gathered = [=](const Arrays& in) {
      return generate(few, [&](Position p) {
        p[a] = wrap_index(in[1].at(p), size);
        return in[0].at(p);
      });
    };
    table.moving(
        "gather/axis_" + name, {{cube}, indices(few, static_cast<double>(size))},
        [=](const Tensors& in) { return gather(in[0], axis, in[1]); }, gathered);
    table.moving(
        "take_along/axis_" + name, {{cube}, indices(few, static_cast<double>(size))},
        [=](const Tensors& in) { return take_along(in[0], in[1], axis); }, gathered);
    for (bool add : {false, true}) {
      auto& entry = table.add((add ? "scatter_add/axis_" : "scatter/axis_") + name,
                              {{cube}, indices(few, static_cast<double>(size)), {few}},
                              [=](const Tensors& in) {
                                return add ? scatter_add(in[0], axis, in[1], in[2])
                                           : scatter(in[0], axis, in[1], in[2]);
                              },
                              [=](const Arrays& in) {
                                Array result = in[0];
                                for_each_position(few, [&](Position p) {
                                  const double source = in[2].at(p);
                                  p[a] = wrap_index(in[1].at(p), size);
                                  result.at(p) = add ? result.at(p) + source : source;
                                });
                                return result;
                              });
      entry.integers = true;
      entry.differentiable = add;  // where an index repeats, the overwritten sources have no clear gradient
      entry.roundings = add ? 1 : 0;
      entry.accumulation = add ? 4 : 0;
      entry.scale = add ? 4 : 0;  // halves may be added one by one
    }
  }
  const auto looked_up = [](const Arrays& in) {
    Shape shape = in[0].shape;
    shape.push_back(in[1].size(-1));
    return generate(shape, [&](const Position& p) {
      Position at(p.begin(), p.end() - 1);
      return in[1].at({wrap_index(in[0].at(at), in[1].size(0)), p[p.size() - 1]});
    });
  };
  for (auto size : edge_sizes)
    table.moving(
        "embedding/features_" + std::to_string(size), {{{2, 3}, {0, 7}, Kind::index}, {{7, size}}},
        [](const Tensors& in) { return embedding(in[0], in[1]); }, looked_up);
  table.moving(
      "embedding/no_indices", {{{0}, {0, 7}, Kind::index}, {{7, 3}}},
      [](const Tensors& in) { return embedding(in[0], in[1]); }, looked_up);
  auto& hot = table.add(
      "one_hot/plain", {{{3, 4}, {0, 5}, Kind::index}}, [](const Tensors& in) { return one_hot(in[0], 5); },
      [](const Arrays& in) {
        return generate(Shape{3, 4, 5}, [&](const Position& p) {
          return in[0].at({p[0], p[1]}) == static_cast<double>(p[2]);
        });
      });
  hot.differentiable = false;
}

}  // namespace hearth::testing
