/* For every rule of loader/verify.def that code can break: a module that breaks it, and the text of its rejection. A
 * check against the table shows that no rule is left out. Rules of the file itself: test_loader.c. Also modules that
 * must be accepted: loops, joins, recursion, epochs. */
#include "base/text.h"
#include "loader/rules.h"
#include "tests/loader/verify_text.h"
#include "tests/suite.h"

#define HEAD \
  ".module \"m\" devices 2\n.type row = f32[4] \"x\"\n.type there = f32[4] device\n.type tree = object\n.const c = " \
  "f32[4] {1}\n" \
  ".const n = i64[1] {4}\n.site add = Add (2 -> 1) \"the add\"\n.site expand = Expand (2 -> 1)\n.site nonzero = " \
  "NonZero (1 -> 1)\n" \
  ".site shape = Shape (1 -> 1)\n.site clip = Clip (3 -> 1)\n.site clip2 = Clip (3 -> 1)\n.site resize = Resize (4 " \
  "-> 1)\n"
#define MAIN HEAD ".function main (row) -> (row)\n"
#define END "  return [r0], []\n"

#define RANGED ".module \"m\"\n.function main (f32[n, m]) -> (f32[*])\n" END

/* An epoch that copies its key to the device and adds it to itself. */
#define EPOCH(keys, scalar_keys, shape_section, run_section) \
  MAIN "  s.const s0, 1\n  epoch.enter 0, plan, [" keys "], [" scalar_keys "]\n" \
       "  shape.like r1, r0, device\n  shape add, device, [r2], [r1:shape, r1:shape]\n" shape_section \
       "plan: epoch.plan 0\n  copy r1, r0, input, add, 0\n  invoke add, device, [r2], [r1, r1]\n  kill " \
       "r1\n" run_section "  epoch.end 0\n"

static const struct {
  const char *text, *rule, *has, *has_too;
} broken[] = {
    /* declared ranges */
    {MAIN END ".range n (0, 0) = [3, 4]\n", "V13", "'n') contradicts the type of input 0", NULL},
    {MAIN END ".range n (0, 1) = [4, 4]\n", "V13", "axis 1 of input 0, whose rank is 1", NULL},
    {MAIN END ".range n (1, 0) = [4, 4]\n", "V13", "range 0: input 1", NULL},
    {MAIN END ".range \"\" (0, 0) = [4, 4]\n", "V13", "range 0: input 0, string 0", NULL},
    {RANGED ".range n (0, 0) = [5, 4]\n", "V13", "'n') is 5 to 4", NULL},
    {RANGED ".range n (0, 0) = [1, 4]\n.range n (0, 0) = [1, 4]\n", "V13", "range 1 ('n') is out of order", NULL},
    {RANGED ".range m (0, 1) = [1, 4]\n.range n (0, 0) = [1, 4]\n", "V13", "range 1 ('n') is out of order", NULL},
    {RANGED ".range n (0, 0) = [1, 4]\n.range n (0, 1) = [1, 5]\n", "V13", "range 1: 'n' has another range before",
     NULL},
    {RANGED ".range n (0, 0) = [1, *]\n.range n (0, 1) = [1, 5]\n", "V13", "range 1: 'n' has another range before",
     NULL},
    /* operands and operators (out-of-range operands of every role: test_reject.c) */
    {HEAD ".function main (row, row) -> (row)\n  return [r0], []\n.function f () registers 9 0\n  return [], []\n",
     "V07", "9 and 0 registers", NULL},
    {MAIN "  shape add, host, [r1], [r0:shape, _]\n" END, "V21", "'inputs'[1] (_)", "input 'B' of Add must be given"},
    {MAIN "  shape.like r1, r0, host\n  invoke add, host, [r1], [_, r0]\n" END, "V21", "'inputs'[0] (_)", "input 'A'"},
    {MAIN "  shape add, host, [_], [r0:shape, r0:shape]\n" END, "V21", "'outputs'[0] (_)", NULL},
    {MAIN "  kill _\n" END, "V21", "'victim' (_)", "must be given"},
    {MAIN "  s.dim s0, r0, 16777215\n" END, "V22", "'axis'", NULL},
    {MAIN "  seq.make r1\n  seq.stack r2, r1, tree, host\n" END, "V22", "'element'", NULL},
    {MAIN "  seq.make r1\n  seq.join r2, r1, tree, host\n" END, "V22", "'element'", NULL},
    {".module \"m\" devices 1\n.function main (f32[4]) -> (f32[4])\n  const r1, c, 1\n  return [r0], []\n.const c = "
     "f32[1] {1}\n",
     "V22", "device 1 of 1", NULL},
    {MAIN "  s.const s0, 1\n", "V24", "word 0", NULL},
    {MAIN "  s.const s0, 1\nx:\n  branch.if s0, x\n", "V24", NULL, NULL},
    {MAIN "  return [r0], []\n.function f () -> ()\n", "V24", "'f'", NULL},
    {MAIN "  shape expand, host, [r1], [r0:shape, r0:shape]\n" END, "V35", "flags 1", "'inputs'[1] (r0)"},
    {MAIN "  shape crop, host, [r1], [r0:shape, r0:shape, r0:value, _]\n" END
          ".site crop = Resize (4 -> 1) {coordinate_transformation_mode = \"tf_crop_and_resize\"}\n",
     "V35", "flags 1, input 'roi' of Resize needs 2", "'inputs'[1] (r0)"},
    {MAIN "  const r1, c, device\n  shape resize, device, [r2], [r1:shape, r0:none, r0:value, _]\n  invoke resize, "
          "device, [r2], [r1, r0, r0, _]\n  readback r3, r2, output, resize, 0\n  sync\n  return [r3], []\n",
     "V34", "'inputs'[1] (r0)", "on the device is needed"},
    {MAIN "  shape resize, host, [r1], [r0:none, r0:none, r0:value, _]\n" END, "V35", "flags 0, input 'X'", NULL},
    {MAIN "  shape add, host, [r1], [r0:shape]\n" END, "V40", "1 inputs, the call site of Add has 2", NULL},
    {MAIN "  shape add, host, [r1, r2], [r0:shape, r0:shape]\n" END, "V40", "'outputs'", NULL},
    {MAIN "  shape if, host, [r1], [r0:value]\n" END ".site if = If (1 -> 1)\n", "V40", "'site'", "If is control flow"},
    {MAIN "  shape.like r1, r0, host\n  invoke if, host, [r1], [r0]\n" END ".site if = If (1 -> 1)\n", "V40", "'site'",
     NULL},
    {MAIN "  shape.like r1, r0, host\n  alloc r1\n  invoke add, host, [r1], [r0, r1]\n" END, "V40", "'outputs'[0] (r1)",
     "input 1 is the same"},
    {MAIN "  shape add, host, [r1, r1], [r0:shape, r0:shape]\n" END ".site two = TopK (2 -> 2)\n", "V40", NULL, NULL},
    {MAIN "  shape two, host, [r1, r1], [r0:shape, r0:value]\n" END ".site two = TopK (2 -> 2)\n", "V40",
     "'outputs'[1] (r1)", "output 0 is the same"},
    {MAIN "  shape.like r1, r0, host\n  alloc r1\n  r.move r2, r1\n  invoke add, host, [r1], [r0, r2]\n" END, "V31",
     "'outputs'[0] (r1)", "a stored tensor"},
    /* contents of registers */
    {MAIN "  s.const s0, 1\n  branch.if s0, x\n  const r1, c, host\nx:\n  return [r1], []\n", "V30",
     "'results'[0] (r1)", "not defined on every path"},
    {MAIN "  s.const s0, 1\n  branch.if s0, x\n  kill r0\nx:\n" END, "V30", "'results'[0] (r0)", NULL},
    {MAIN "  s.const s0, 1\n  branch.if s0, x\n  s.const s1, 1\nx:\n  s.add s1, s0, s1\n" END, "V30", "'b' (s1)", NULL},
    {MAIN "  kill r0\n" END, "V30", "the register is dead", NULL},
    {MAIN "  s.const s0, 1\nx:\n  s.dim s1, r0, 0\n  kill r0\n  branch.if s0, x\n  const r0, c, host\n" END, "V30",
     "s.dim", "not defined on every path"},
    {MAIN "  s.const s0, 1\n  shape.like r1, r0, host\n  branch.if s0, x\n  alloc r1\nx:\n  return [r1], []\n", "V30",
     "something else on another path", NULL},
    {MAIN "  shape.like r1, r0, host\n  return [r1], []\n", "V31", "shaped tensor without memory on the host", NULL},
    {MAIN "  const r1, c, host\n  invoke add, host, [r1], [r0, r0]\n" END, "V31", "'outputs'[0] (r1)",
     "a stored tensor on the host"},
    {MAIN "  shape.like r1, r0, host\n  alloc r1\n  view r1, r0\n" END, "V31", "an allocated tensor", NULL},
    {MAIN "  shape nonzero, host, [r1], [r0:shape]\n  invoke nonzero, host, [r1], [r0]\n  view r2, r1\n" END, "V31",
     "'src' (r1)", "extent has not been fetched"},
    {MAIN "  s.const s0, 1\n  opt.none r1\n  branch.if s0, x\n  r.move r1, r0\nx:\n  s.dim s1, r1, 0\n" END, "V31",
     "possibly none, else a stored tensor", NULL},
    {MAIN "  readback r1, r0, value, add, 0\n  s.dim s0, r1, 0\n  sync\n" END, "V32", "'src' (r1)",
     "until the next sync"},
    {MAIN "  readback r1, r0, value, add, 0\n  const r1, c, host\n  sync\n" END, "V32", "'dst' (r1)", "overwritten"},
    {MAIN "  readback r1, r0, value, add, 0\n  kill r1\n" END, "V32", "'victim'", NULL},
    {MAIN "  readback r1, r0, value, add, 0\n" END, "V32", "return", "1 registers are being fetched"},
    {MAIN "  readback r1, r0, value, add, 0\n  call main, [r2], [], [r0], []\n  sync\n" END, "V32", "call", NULL},
    {MAIN
     "  s.const s0, 1\n  const r1, c, host\n  branch.if s0, x\n  readback r1, r0, value, add, 0\nx:\n  kill r1\n" END,
     "V32", "being fetched on some path", NULL},
    {MAIN "  s.const s0, 1\n  branch.if s0, x\n  readback r1, r0, value, add, 0\nx:\n  sync\n  return [r1], []\n",
     "V30", NULL, NULL},
    {MAIN "  kill r0\n  kill r0\n" END, "V33", "'victim' (r0)", "dead"},
    {MAIN "  kill r1\n" END, "V33", NULL, NULL},
    {MAIN "  const r1, c, device\n  shape.like r2, r0, host\n  invoke add, host, [r2], [r1, r1]\n" END, "V34",
     "'inputs'[0] (r1)", "on the host is needed"},
    {MAIN "  shape.like r2, r0, device\n  invoke add, device, [r2], [r0, r0]\n" END, "V34", "'inputs'[0] (r0)",
     "on the device is needed"},
    {MAIN "  const r1, c, device\n  shape.like r2, r0, host\n  invoke add, device, [r2], [r1, r1]\n" END, "V34",
     "shaped for another device", NULL},
    {MAIN "  const r1, n, device\n  shape expand, host, [r2], [r0:shape, r1:value]\n" END, "V34", "'inputs'[1] (r1)",
     NULL},
    {MAIN "  const r1, c, device\n  const r3, n, device\n  shape.like r2, r0, device\n  invoke expand, device, [r2], "
          "[r1, r3]\n" END,
     "V34", "'inputs'[1] (r3)", "on the host"},
    {MAIN "  const r1, c, device\n  s.item s0, r1\n" END, "V34", "'src' (r1)", NULL},
    {MAIN "  shape.like r2, r0, device\n  view r2, r0\n" END, "V34", "'dst' (r2)", NULL},
    {MAIN "  const r1, c, device\n  shape.like r2, r0, host\n  copy r2, r1, value, add, 0\n" END, "V34",
     "only readback copies to the host", NULL},
    /* calls */
    {MAIN "  call main, [r1], [], [], []\n" END, "V41", "'arguments'", "the signature of 'main' has 1"},
    {MAIN "  call main, [], [], [r0], []\n" END, "V41", "'results'", NULL},
    {MAIN "  s.const s0, 1\n  call main, [r1], [s0], [r0], []\n" END, "V41", "'scalars'", NULL},
    {MAIN "  s.const s0, 1\n  call main, [r1], [], [r0], [s0]\n" END, "V41", "'scalar_arguments'", NULL},
    {MAIN "  const r1, c, device\n  call main, [r1], [], [r1], []\n" END, "V41", "'arguments'[0] (r1)",
     "a tensor on the host"},
    {MAIN "  seq.make r1\n  call main, [r1], [], [r1], []\n" END, "V41", "an object", NULL},
    {MAIN "  return [], []\n", "V42", "'results'", "the signature of 'main' has 1"},
    {MAIN "  s.const s0, 1\n  return [r0], [s0]\n", "V42", "'scalars'", NULL},
    {MAIN "  const r1, c, device\n  return [r1], []\n", "V42", "'results'[0] (r1)",
     "on the device; the signature says a tensor on the host"},
    {MAIN "  adt.make r1, 0, [r0]\n  adt.get r2, r1, 0\n  return [r2], []\n", "V42", "known only at run time", NULL},
    {MAIN "  adt.make r1, 0, [r0]\n  adt.get r2, r1, 0\n  assert.shape r2, row\n  return [r2], []\n", "V42",
     "known only at run time", NULL},
    {MAIN "  closure.make r1, f, [r0]\n" END ".function f (row | 1)\n  return [], []\n", "V43",
     "takes or gives scalars", NULL},
    {MAIN "  closure.make r1, main, [r0, r0]\n" END, "V43", "2 captured, 'main' has 1", NULL},
    /* epochs */
    {MAIN "  epoch.plan 0\n" END, "V50", NULL, NULL},
    {MAIN "  epoch.enter 0, x, [], []\nx: epoch.plan 0\n  return [r0], []\n", "V50", NULL, NULL},
    {MAIN "  epoch.enter 0, y, [], []\n  s.const s0, 0\ny: s.const s1, 0\n  epoch.plan 0\n  epoch.end 0\n" END, "V50",
     "'plan'", "planned at word"},
    {MAIN "  epoch.enter 0, x, [], []\nx: epoch.plan 0\n  epoch.end 0\n  epoch.enter 0, y, [], []\ny: epoch.plan 0\n  "
          "epoch.end 0\n" END,
     "V50", "'epoch'", NULL},
    {EPOCH("r0:shape", "", "  kill r2\n", "") END, "V51", "kill", "a shape section"},
    {EPOCH("r0:shape", "", "  return [r0], []\n", "") END, "V51", "return", NULL},
    {EPOCH("r0:shape", "", "  copy r1, r0, input, add, 0\n", "") END, "V51", "copy", NULL},
    {EPOCH("r0:shape", "", "", "  s.const s1, 1\n") END, "V51", "s.const", "a run section"},
    {EPOCH("r0:shape", "", "", "  shape.like r3, r2, device\n") END, "V51", "shape.like", NULL},
    {EPOCH("r0:shape", "", "", "  sync\n") END, "V51", "sync", NULL},
    {EPOCH("r0:shape", "", "", "  call main, [r3], [], [r0], []\n") END, "V51", "call", NULL},
    {EPOCH("r0:shape", "s0", "x:\n  branch.if s0, x\n", "") END, "V52", "'target'", "backwards"},
    {EPOCH("r0:shape", "s0", "", "  branch.if s0, out\n") "out:\n" END, "V52", "'target'", "out of a section"},
    {EPOCH("r0:shape", "s0", "  branch.if s0, run\n", "run:\n") END, "V52", NULL, NULL},
    {MAIN "  s.const s0, 1\n  branch.if s0, in\n  epoch.enter 0, plan, [], []\nin: s.const s0, 2\nplan: epoch.plan 0\n "
          " epoch.end 0\n" END,
     "V52", "branch.if", NULL},
    {EPOCH("", "", "", "") END, "V53", "'src' (r0)", "nor among its keys"},
    {EPOCH("r0:shape", "", "  s.move s1, s0\n", "") END, "V53", "'src' (s0)", NULL},
    {EPOCH("r0:shape", "", "", "  branch.if s0, x\nx:\n") END, "V53", "'condition' (s0)", NULL},
    {MAIN "  const r5, c, device\n"
          "  epoch.enter 0, plan, [r0:shape], []\n  shape.like r1, r0, device\nplan: epoch.plan 0\n  view r1, r5\n  "
          "epoch.end 0\n" END,
     "V53", "'src' (r5)", NULL},
    {MAIN "  s.const s0, 1\n  const r5, c, host\n  epoch.enter 0, plan, [r0:shape], [s0]\n  branch.if s0, x\n  const "
          "r5, c, host\nx:\n  s.dim s1, r5, 0\n"
          "plan: epoch.plan 0\n  epoch.end 0\n" END,
     "V53", "'src' (r5)", "on every path"},
    {EPOCH("r0:shape", "", "  s.item s1, r0\n", "") END, "V54", "'src' (r0)", "do not follow from the keys"},
    {EPOCH("r0:shape", "", "  shape expand, device, [r3], [r2:shape, r0:value]\n", "") END, "V54", "'inputs'[1] (r0)",
     NULL},
    {EPOCH("r0:shape", "", "  shape.like r3, r0, host\n  invoke add, host, [r3], [r0, r0]\n", "") END, "V54",
     "'inputs'[0] (r0)", NULL},
    {EPOCH("r0:shape", "", "  r.move r3, r0\n", "") END, "V54", "'src' (r0)", NULL},
    {EPOCH("r0:shape", "", "  shape.like r3, r0, host\n  view r3, r0\n", "") END, "V54", "'src' (r0)", NULL},
    {MAIN "  epoch.enter 0, plan, [r0:shape], []\n  const r6, n, host\n  shape.like r1, r0, device\n  shape.like r4, "
          "r0, host\n  shape expand, device, [r2], [r1:shape, r6:value]\n"
          "plan: epoch.plan 0\n  copy r1, r0, input, add, 0\n  invoke add, host, [r4], [r0, r0]\n  invoke expand, "
          "device, [r2], [r1, r4]\n  epoch.end 0\n" END,
     "V54", "'inputs'[1] (r4)", NULL},
    {EPOCH("r0:value", "", "  shape nonzero, host, [r3], [r0:shape]\n  invoke nonzero, host, [r3], [r0]\n", "") END,
     "V55", "reported by the kernel", NULL},
    {EPOCH("r0:value", "", "  shape.like r3, r0, device\n  const r4, c, device\n  invoke add, device, [r3], [r4, r4]\n",
           "") END,
     "V34", "'inputs'[0] (r4)", NULL},
    {EPOCH("r0:value", "", "  shape shape, device, [r3], [r0:shape]\n  invoke shape, device, [r3], [r0]\n", "") END,
     "V55", "not on the host", NULL},
    /* after the epoch r0 is filled, so that `view` may not shape it */
    {EPOCH("r0:shape", "", "", "") "  view r2, r0\n" END, "V31", NULL, NULL},
    /* a count that this epoch makes: no operator, no instruction and no kernel of the epoch may need it on the host */
    {EPOCH("r0:shape", "", "  shape nonzero, device, [r3], [r1:shape]\n  shape shape, host, [r4], [r3:shape]\n", "")
         END,
     "V57", "Shape needs it on the host", NULL},
    {EPOCH("r0:shape", "", "  shape nonzero, device, [r3], [r1:shape]\n  shape.like r4, r3, device\n", "") END, "V57",
     "needed on the host here", NULL},
    {EPOCH("r0:shape", "", "  shape.like r3, r0, host\n", "") "  alloc r3\n" END, "V30", "'tensor' (r3)",
     "dead"}, /* no kernel has filled r3 */
    {MAIN "  shape.like r3, r0, host\n  epoch.enter 0, plan, [r3:shape], []\nplan: epoch.plan 0\n  epoch.end 0\n" END,
     "V31", "'keys'[0] (r3)", NULL},
    {MAIN "  const r1, c, device\n  epoch.enter 0, plan, [r1:value], []\nplan: epoch.plan 0\n  epoch.end 0\n" END,
     "V34", "'keys'[0] (r1)", NULL},
    /* `shape` and `invoke` of one call site have the same operands, still as they were */
    {EPOCH("r0:shape", "", "  shape.like r3, r1, device\n", "  invoke add, device, [r3], [r2, r2]\n") END, "V56",
     "runs no `shape` of this call site and these operands", NULL},
    {EPOCH("r0:shape", "", "  shape add, device, [r3], [r1:shape, r2:shape]\n",
           "  invoke add, device, [r3], [r2, r2]\n") END,
     "V56", "not those of the call site's `shape` at word", NULL},
    {MAIN "  epoch.enter 0, plan, [r0:shape], []\n  const r1, c, device\n  shape.like r3, r1, device\nplan: epoch.plan "
          "0\n  invoke add, device, [r3], [r1, r1]\n  epoch.end 0\n" END,
     "V56", "'site'", "runs no `shape` of this call site"},
    {EPOCH("r0:shape", "", "  shape.like r1, r0, device\n", "") END, "V56", "an operand is defined again", NULL},
    {EPOCH("r0:shape", "", "  shape.like r2, r0, device\n", "") END, "V56", "an operand is defined again", NULL},
    {EPOCH("r0:shape", "", "  const r0, c, host\n  shape.like r1, r0, device\n", "") END, "V56", "defined again", NULL},
    {EPOCH("r0:shape", "s0", "  branch.if s0, x\n  shape.like r1, r0, device\nx:\n", "") END, "V56", "defined again",
     NULL},
    {EPOCH("r0:shape", "s0",
           "  shape.like r5, r0, device\n  branch.if s0, x\n  shape clip, device, [r4], [r1:shape, _, _]\n  jump "
           "y\nx:\n  "
           "shape clip, device, [r4], [r5:shape, _, _]\ny:\n",
           "  view r5, r2\n  invoke clip, device, [r4], [r5, _, _]\n") END,
     "V56", "not those of", NULL},
    {MAIN
     "  epoch.enter 0, plan, [r0:value], []\n  const r3, c, host\n  shape add, host, [r4], [r3:shape, r0:shape]\n  "
     "const r3, c, host\n  invoke add, host, [r4], [r3, r0]\nplan: epoch.plan 0\n  epoch.end 0\n" END,
     "V56", "invoke: an operand is defined again", NULL},
    /* in the loop's second round the epoch's own registers do not hold the first round's tensors */
    {MAIN "  s.const s0, 1\n  const r5, c, host\nagain:\n  epoch.enter 0, plan, [r0:shape], [s0]\n  branch.if s0, x\n  "
          "s.dim s1, r5, 0\nx:\n  const r5, c, host\n"
          "plan: epoch.plan 0\n  epoch.end 0\n  branch.if s0, again\n" END,
     "V53", "'src' (r5)", NULL},
};

static const char *const good[] = {
    MAIN END,
    MAIN END ".range n (0, 0) = [4, 4]\n",
    RANGED ".range n (0, 0) = [0, *]\n.range m (0, 1) = [0, 0]\n",
    RANGED ".range k (0, 0) = [2, 9]\n.range k (0, 1) = [2, 9]\n",
    /* loops: a scalar that counts, a tensor that is replaced, a sequence that grows */
    MAIN "  s.const s0, 10\n  s.const s1, 1\n  seq.make r2\nagain:\n  shape add, host, [r1], [r0:shape, r0:shape]\n  "
         "invoke add, host, [r1], [r0, r0]\n  kill r0\n"
         "  r.move r0, r1\n  seq.push r2, r0\n  kill r1\n  s.sub s0, s0, s1\n  branch.if s0, again\n" END,
    /* joins */
    MAIN
    "  s.dim s0, r0, 0\n  branch.if s0, x\n  const r1, c, host\n  jump y\nx:\n  r.move r1, r0\ny:\n  return [r1], []\n",
    MAIN "  s.dim s0, r0, 0\n  opt.none r1\n  branch.if s0, x\n  r.move r1, r0\nx:\n  opt.has s1, r1\n  branch.ifnot "
         "s1, y\n  opt.get r2, r1\n  return [r2], []\ny:\n" END,
    /* a branch not taken leaves a stored tensor where a kernel reports an extent on the other */
    MAIN "  s.dim s0, r0, 0\n  const r1, c, host\n  branch.if s0, x\n  shape nonzero, host, [r1], [r0:shape]\n  invoke "
         "nonzero, host, [r1], [r0]\nx:\n  extent r1\n  sync\n"
         "  s.dim s1, r1, 0\n  return [r1], []\n",
    /* recursion, dead code behind a return, a register used for one thing after the other */
    MAIN "  call main, [r1], [], [r0], []\n  return [r1], []\n  kill r9\n  jump x\nx:\n  fail \"never\"\n",
    MAIN
    "  seq.make r1\n  kill r1\n  const r1, c, device\n  readback r1, r1, output, add, 0\n  sync\n  return [r1], []\n",
    ".function main (f32[4]) -> (f32[4])\n  adt.make r1, 0, [r0]\n  call f, [r2], [], [r1], []\n  assert.shape r2, "
    "f32[4]\n  return [r2], []\n"
    ".function f (object) -> (object)\n  adt.get r1, r0, 0\n  return [r1], []\n",
    ".function main (f32[4]) -> (f32[4])\n  closure.make r1, main, []\n  call.closure r1, [r2], [r0]\n  assert.shape "
    "r2, f32[4]\n  return [r2], []\n",
    MAIN
    "  closure.make r1, main, []\n  call.closure r1, [r2], [r0]\n  call as_row, [r2], [], [r2], []\n  return [r2], []\n"
    ".function as_row (row) -> (row)\n  return [r0], []\n",
    /* flags that ask for more than the row; a roi on the host for a kernel of the device, as older modules have it */
    MAIN "  shape add, host, [r1], [r0:value, r0:both]\n  invoke add, host, [r1], [r0, r0]\n  return [r1], []\n",
    MAIN "  const r1, c, device\n  shape resize, device, [r2], [r1:shape, r0:value, r0:value, _]\n  invoke resize, "
         "device, [r2], [r1, r0, r0, _]\n  readback r3, r2, output, resize, 0\n  sync\n  return [r3], []\n",
    MAIN "  const r1, c, device\n  shape resize, device, [r2], [r1:shape, r1:none, r0:value, _]\n  invoke resize, "
         "device, [r2], [r1, r1, r0, _]\n  readback r3, r2, output, resize, 0\n  sync\n  return [r3], []\n",
    MAIN "  shape clip, host, [r1], [r0:shape, _, _]\n  alloc r1\n  invoke clip, host, [r1], [r0, _, _]\n  return "
         "[r1], []\n",
    /* epochs */
    EPOCH("r0:shape", "", "", "") "  readback r3, r2, output, add, 0\n  kill r2\n  sync\n  return [r3], []\n",
    EPOCH("r0:both", "s0",
          "  s.item s1, r0\n  r.move r4, r0\n  shape expand, device, [r3], [r2:shape, r0:value]\n  branch.if s0, x\n  "
          "s.add s1, s1, s0\nx:\n",
          "  branch.if s1, y\n  invoke expand, device, [r3], [r2, r0]\n  jump z\ny:\n  invoke expand, device, [r3], "
          "[r2, r0]\nz:\n  kill r2\n") "  kill r3\n  kill r4\n" END,
    /* a call site called twice; a diamond: a register that one path shapes is defined otherwise on the other path, and
     * before the `shape` all registers may be defined */
    EPOCH(
        "r0:shape", "s0",
        "  shape add, device, [r5], [r2:shape, r1:shape]\n  branch.ifnot s0, x\n  shape.like r3, r0, device\n  shape "
        "clip, device, [r3], [r2:shape, _, _]\n  shape "
        "clip2, "
        "device, [r4], [r3:shape, _, _]\n  jump y\nx:\n  shape.like r3, r0, device\n  shape.like r4, r0, device\ny:\n",
        "  view r5, r2\n  branch.ifnot s0, v\n  invoke clip, device, [r3], [r2, _, _]\n  invoke clip2, device, [r4], "
        "[r3, _, _]\n  "
        "jump "
        "w\nv:\n  view r3, r2\n  view r4, r2\nw:\n") END,
    /* Shape reads extents only: of a tensor on the device, without memory yet */
    EPOCH("r0:shape", "",
          "  shape shape, host, [r3], [r2:shape]\n  invoke shape, host, [r3], [r2]\n  shape expand, device, [r4], "
          "[r2:shape, r3:value]\n",
          "  invoke expand, device, [r4], [r2, r3]\n") END,
    /* a bounded output, fetched at the boundary and keyed by the next epoch */
    MAIN "  epoch.enter 0, p0, [r0:shape], []\n  shape.like r1, r0, device\n  shape nonzero, device, [r2], "
         "[r1:shape]\np0: epoch.plan 0\n  copy r1, r0, input, nonzero, 0\n"
         "  invoke nonzero, device, [r2], [r1]\n  kill r1\n  epoch.end 0\n  extent r2\n  sync\n"
         "  epoch.enter 1, p1, [r2:shape], []\n  shape add, device, [r3], [r2:shape, r2:shape]\np1: epoch.plan 1\n  "
         "invoke add, device, [r3], [r2, r2]\n  epoch.end 1\n" END,
    /* an epoch in a loop */
    MAIN "  s.const s0, 1\nagain:\n  epoch.enter 0, p, [r0:shape], []\n  shape.like r1, r0, device\n  shape add, "
         "device, [r2], [r1:shape, r1:shape]\np: epoch.plan 0\n"
         "  copy r1, r0, input, add, 0\n  invoke add, device, [r2], [r1, r1]\n  kill r1\n  epoch.end 0\n  readback r0, "
         "r2, output, add, 0\n  sync\n  kill r2\n  branch.if s0, again\n" END,
};

START_TEST(a_module_that_breaks_a_rule_is_rejected) {
  reject(broken[_i].text, broken[_i].rule, broken[_i].has, broken[_i].has_too);
}
END_TEST

START_TEST(a_good_module_is_accepted) { accept(good[_i]); }
END_TEST

START_TEST(every_rule_of_code_is_broken_by_some_module) {
  for (int i = 0; i < VERIFY_RULE_COUNT; i++) {
    char name[8];
    snprintf(name, sizeof name, "V%02d", verify_rules[i].number);
    bool found = verify_rules[i].number < 20; /* rules of the file: test_loader.c */
    /* no assembler text gives such words: test_reject.c, test_loader.c */
    found |= i == RULE_DECODE || i == RULE_TARGET;
    found |= i == RULE_LIMIT; /* below */
    for (size_t k = 0; k < sizeof broken / sizeof *broken; k++) found |= strcmp(broken[k].rule, name) == 0;
    ck_assert_msg(found, "%s", name);
    if (i) ck_assert_int_lt(verify_rules[i - 1].number, verify_rules[i].number);
  }
}
END_TEST

START_TEST(code_with_too_many_stretches_and_registers_is_refused_before_it_takes_memory) {
  text_buffer t = {0};
  text_append(&t, MAIN "  s.const s0, 1\n");
  for (int i = 0; i < 9000; i++) text_append(&t, "  s.const s%d, 1\n  branch.if s0, x\n", i % 8000);
  text_append(&t, "x:\n" END);
  reject(t.data, "V25", "function 'main' is too complex", NULL);
  text_fini(&t);
}
END_TEST

/* Each definition of r1 visits every `shape` before it that reads r1. */
START_TEST(an_epoch_that_defines_operands_again_and_again_is_refused_before_it_takes_time) {
  text_buffer t = {0};
  text_append(&t, MAIN "  epoch.enter 0, plan, [r0:shape], []\n");
  for (int i = 0; i < 6000; i++) text_append(&t, "  shape.like r1, r0, host\n  shape shape, host, [r2], [r1:shape]\n");
  text_append(&t, "plan: epoch.plan 0\n  epoch.end 0\n" END);
  reject(t.data, "V25", "function 'main' is too complex", "shape functions");
  text_fini(&t);
}
END_TEST

START_TEST(a_diagnosis_has_function_word_and_node) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  ck_assert_int_eq(check_text(MAIN "  kill r0\n  s.dim s0, r0, 0 @ \"a node\"\n" END, d), REED_ERROR_FORMAT);
  ck_assert_str_eq(reed_diagnosis_function(d), "main");
  ck_assert_int_eq(reed_diagnosis_pc(d), 2);
  ck_assert_str_eq(reed_diagnosis_node(d), "a node");
  ck_assert_str_eq(reed_diagnosis_message(d),
                   "V30: function 'main', word 2, s.dim, operand 'src' (r0): the register is dead");
  reed_diagnosis_close(&d);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rules");
  TCase *c = tcase_create("rules");
  tcase_set_timeout(c, 120);
  suite_add_tcase(suite, c);
  tcase_add_loop_test(c, a_module_that_breaks_a_rule_is_rejected, 0, (int)(sizeof broken / sizeof *broken));
  tcase_add_loop_test(c, a_good_module_is_accepted, 0, (int)(sizeof good / sizeof *good));
  tcase_add_test(c, every_rule_of_code_is_broken_by_some_module);
  tcase_add_test(c, code_with_too_many_stretches_and_registers_is_refused_before_it_takes_memory);
  tcase_add_test(c, an_epoch_that_defines_operands_again_and_again_is_refused_before_it_takes_time);
  tcase_add_test(c, a_diagnosis_has_function_word_and_node);
  return suite_run(suite);
}
