;; The one product that a model's time goes into, y = W x, four numbers at an instruction; engine.mjs carries it compiled.
;;
;; W has `rows` rows, a row begins `stride` bytes after the one before it, and its first `columns` numbers count.
;; `columns` is a multiple of 16: engine.mjs fills rows up with zeros. `y`, `w`, `x`, `scales` are addresses in bytes.
(module
  (import "engine" "memory" (memory 1))

  ;; float32 weights, float32 x. Four sums at once, because an addition takes four cycles until its result can be used.
  (func (export "matvec")
    (param $y i32) (param $w i32) (param $x i32) (param $rows i32) (param $columns i32) (param $stride i32)
    (local $at i32) (local $from i32) (local $end i32) (local $last i32)
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local.set $last (i32.add (local.get $y) (i32.shl (local.get $rows) (i32.const 2))))
    (loop $row
      (local.set $at (local.get $w))
      (local.set $from (local.get $x))
      (local.set $end (i32.add (local.get $w) (i32.shl (local.get $columns) (i32.const 2))))
      (local.set $a (v128.const f32x4 0 0 0 0))
      (local.set $b (v128.const f32x4 0 0 0 0))
      (local.set $c (v128.const f32x4 0 0 0 0))
      (local.set $d (v128.const f32x4 0 0 0 0))
      (loop $sixteen
        (local.set $a (f32x4.add (local.get $a)
          (f32x4.mul (v128.load (local.get $at)) (v128.load (local.get $from)))))
        (local.set $b (f32x4.add (local.get $b)
          (f32x4.mul (v128.load offset=16 (local.get $at)) (v128.load offset=16 (local.get $from)))))
        (local.set $c (f32x4.add (local.get $c)
          (f32x4.mul (v128.load offset=32 (local.get $at)) (v128.load offset=32 (local.get $from)))))
        (local.set $d (f32x4.add (local.get $d)
          (f32x4.mul (v128.load offset=48 (local.get $at)) (v128.load offset=48 (local.get $from)))))
        (local.set $from (i32.add (local.get $from) (i32.const 64)))
        (br_if $sixteen (i32.lt_u
          (local.tee $at (i32.add (local.get $at) (i32.const 64))) (local.get $end))))
      (local.set $a (f32x4.add
        (f32x4.add (local.get $a) (local.get $b)) (f32x4.add (local.get $c) (local.get $d))))
      (f32.store (local.get $y) (f32.add
        (f32.add (f32x4.extract_lane 0 (local.get $a)) (f32x4.extract_lane 1 (local.get $a)))
        (f32.add (f32x4.extract_lane 2 (local.get $a)) (f32x4.extract_lane 3 (local.get $a)))))
      (local.set $w (i32.add (local.get $w) (local.get $stride)))
      (br_if $row (i32.lt_u
        (local.tee $y (i32.add (local.get $y) (i32.const 4))) (local.get $last)))))

  ;; int8 weights, int16 x: the products are added as whole numbers, exactly. Row r then counts `scales`[r] · `unit`.
  (func (export "matvecInt8")
    (param $y i32) (param $w i32) (param $x i32) (param $rows i32) (param $columns i32) (param $stride i32)
    (param $scales i32) (param $unit f32)
    (local $at i32) (local $from i32) (local $end i32) (local $last i32)
    (local $a v128) (local $b v128)
    (local.set $last (i32.add (local.get $y) (i32.shl (local.get $rows) (i32.const 2))))
    (loop $row
      (local.set $at (local.get $w))
      (local.set $from (local.get $x))
      (local.set $end (i32.add (local.get $w) (local.get $columns)))
      (local.set $a (v128.const i32x4 0 0 0 0))
      (local.set $b (v128.const i32x4 0 0 0 0))
      (loop $sixteen
        (local.set $a (i32x4.add (local.get $a)
          (i32x4.dot_i16x8_s (v128.load8x8_s (local.get $at)) (v128.load (local.get $from)))))
        (local.set $b (i32x4.add (local.get $b)
          (i32x4.dot_i16x8_s (v128.load8x8_s offset=8 (local.get $at)) (v128.load offset=16 (local.get $from)))))
        (local.set $from (i32.add (local.get $from) (i32.const 32)))
        (br_if $sixteen (i32.lt_u
          (local.tee $at (i32.add (local.get $at) (i32.const 16))) (local.get $end))))
      (local.set $a (i32x4.add (local.get $a) (local.get $b)))
      (f32.store (local.get $y) (f32.mul
        (f32.mul (f32.load (local.get $scales)) (local.get $unit))
        (f32.convert_i32_s (i32.add
          (i32.add (i32x4.extract_lane 0 (local.get $a)) (i32x4.extract_lane 1 (local.get $a)))
          (i32.add (i32x4.extract_lane 2 (local.get $a)) (i32x4.extract_lane 3 (local.get $a)))))))
      (local.set $w (i32.add (local.get $w) (local.get $stride)))
      (local.set $scales (i32.add (local.get $scales) (i32.const 4)))
      (br_if $row (i32.lt_u
        (local.tee $y (i32.add (local.get $y) (i32.const 4))) (local.get $last)))))
)
