/* Modules with one tail of kernels each, for test_variant.c: a tail has a kernel whose place or size depends on the
 * size of x in a way of its own. Operators of domain "test" are the test's. */
#ifndef TESTS_VM_EPOCH_TAILS_H_
#define TESTS_VM_EPOCH_TAILS_H_

/* Of x [n, 4, 2]: a tail of kernels that variants must not always repeat, beside a row of kernels that read z alone. */
static const char around_tail[] =
    ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n, 4, 2] \"x\"\n.type z = f32[m, 4, 2] \"z\"\n"
    ".type y = f32[a, b, c] \"y\"\n.type w = f32[m, 4, 2] \"w\"\n.type v = f32[a, b, c] \"v\"\n.inputs x, z\n"
    ".outputs y, w, v\n.const few = f32[1, 4, 2] {1, 2, 3, 4, 5, 6, 7, 8}\n.const one = i64[1] {1}\n"
    ".const two = i64[1] {2}\n.const four = i64[1] {4}\n"
    ".site a = Neg (1 -> 1) \"a\"\n.site b = Tanh (1 -> 1) \"b\"\n.site c = Exp (1 -> 1) \"c\"\n"
    ".site d = Sigmoid (1 -> 1) \"d\"\n.site i = Abs (1 -> 1) \"i\"\n%s"
    ".function main (x, z) -> (y, w, v) registers 40 2\n"
    "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
    "  const r9, few, device\n  const r10, one, 0\n  const r11, two, 0\n  const r12, four, 0\n"
    "  shape.like r2, r0, device\n  shape.like r3, r1, device\n"
    "  shape i, device, [r20], [r3:shape]\n  shape i, device, [r21], [r20:shape]\n"
    "  shape i, device, [r22], [r21:shape]\n  shape i, device, [r23], [r22:shape]\n"
    "  shape i, device, [r24], [r23:shape]\n  shape i, device, [r25], [r24:shape]\n"
    "  shape i, device, [r26], [r25:shape]\n  shape i, device, [r27], [r26:shape]\n"
    "  shape a, device, [r4], [r2:shape]\n  shape b, device, [r5], [r9:shape]\n%s"
    "  shape c, device, [r7], [r6:shape]\n  shape d, device, [r8], [r7:shape]\n"
    "plan: epoch.plan 0\n  copy r2, r0, input, a, 0\n  copy r3, r1, input, i, 0\n"
    "  invoke i, device, [r20], [r3]\n  kill r3\n  invoke i, device, [r21], [r20]\n  kill r20\n"
    "  invoke i, device, [r22], [r21]\n  kill r21\n  invoke i, device, [r23], [r22]\n  kill r22\n"
    "  invoke i, device, [r24], [r23]\n  kill r23\n  invoke i, device, [r25], [r24]\n  kill r24\n"
    "  invoke i, device, [r26], [r25]\n  kill r25\n  invoke i, device, [r27], [r26]\n  kill r26\n"
    "  invoke a, device, [r4], [r2]\n  invoke b, device, [r5], [r9]\n%s"
    "  invoke c, device, [r7], [r6]\n  kill r6\n  invoke d, device, [r8], [r7]\n"
    "  epoch.end 0\n  readback r15, r7, output, c, 0\n  readback r16, r27, output, i, 0\n"
    "  readback r17, r8, output, d, 0\n  sync\n  kill r7\n  kill r8\n  kill r27\n  kill r9\n  kill r10\n  kill r11\n"
    "  kill r12\n  return [r15, r16, r17], []\n";

/* r6 of r4 [n, 4, 2], r5 [1, 4, 2] and r2 (x): sites, the shape section, the run section. */
static const char *const tails[][3] = {
    /* the result takes the place of r5 if n is 1, of r4 otherwise */
    {".site t = Add (2 -> 1) \"t\"\n", "  shape t, device, [r6], [r5:shape, r4:shape]\n",
     "  kill r2\n  invoke t, device, [r6], [r5, r4]\n  kill r4\n  kill r5\n"},
    /* the operands are computed in the result's place if n is 1 */
    {".site s = Relu (1 -> 1) \"s\"\n.site t = Concat (2 -> 1) \"t\" {axis = 1}\n",
     "  shape s, device, [r13], [r2:shape]\n  shape t, device, [r6], [r4:shape, r13:shape]\n",
     "  invoke s, device, [r13], [r2]\n  kill r2\n  kill r5\n  invoke t, device, [r6], [r4, r13]\n  kill r4\n"
     "  kill r13\n"},
    /* the result is a part of its operand if n is 1 */
    {".site t = Slice (4 -> 1) \"t\"\n", "  shape t, device, [r6], [r4:shape, r11:value, r12:value, r10:value]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r6], [r4, r11, r12, r10]\n  kill r4\n"},
    /* the result is a part of its operand, at the same byte, if n is 2 to 7 */
    {".site t = Slice (3 -> 1) \"t\"\n", "  shape t, device, [r6], [r4:shape, r10:value, r12:value]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r6], [r4, r10, r12]\n  kill r4\n"},
    /* the last row, which is a part of its operand if n is 2, and is cut from it at another byte if n is larger */
    {".const last = i64[1] {-1}\n.const end = i64[1] {99}\n.site t = Slice (3 -> 1) \"t\"\n",
     "  const r30, last, 0\n  const r31, end, 0\n  shape t, device, [r6], [r4:shape, r30:value, r31:value]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r6], [r4, r30, r31]\n  kill r4\n  kill r30\n  kill r31\n"},
    /* twins of an operator: with a constant, with an operand of that size, with another operand, with other attributes
     */
    {".site p = Add (2 -> 1) \"p\"\n.site q = Add (2 -> 1) \"q\"\n.site r = LeakyRelu (1 -> 1) \"r\" {alpha = 0.125}\n"
     ".site s = LeakyRelu (1 -> 1) \"s\" {alpha = 0.5}\n.site t = Add (2 -> 1) \"t\"\n",
     "  shape p, device, [r13], [r4:shape, r9:shape]\n  shape q, device, [r14], [r4:shape, r5:shape]\n"
     "  shape r, device, [r15], [r13:shape]\n  shape s, device, [r16], [r14:shape]\n"
     "  shape t, device, [r6], [r15:shape, r16:shape]\n",
     "  kill r2\n  invoke p, device, [r13], [r4, r9]\n  invoke q, device, [r14], [r4, r5]\n  kill r4\n  kill r5\n"
     "  invoke r, device, [r15], [r13]\n  kill r13\n  invoke s, device, [r16], [r14]\n  kill r14\n"
     "  invoke t, device, [r6], [r15, r16]\n  kill r15\n  kill r16\n"},
    /* twins that read other elements */
    {".site r = Slice (4 -> 1) \"r\"\n.site s = Slice (4 -> 1) \"s\"\n.site t = Concat (2 -> 1) \"t\" {axis = 1}\n",
     "  shape r, device, [r13], [r4:shape, r11:value, r12:value, r10:value]\n"
     "  shape s, device, [r14], [r4:shape, r10:value, r12:value, r10:value]\n"
     "  shape t, device, [r6], [r13:shape, r14:shape]\n",
     "  kill r2\n  kill r5\n  invoke r, device, [r13], [r4, r11, r12, r10]\n"
     "  invoke s, device, [r14], [r4, r10, r12, r10]\n  kill r4\n"
     "  invoke t, device, [r6], [r13, r14]\n  kill r13\n  kill r14\n"},
    /* as many rows as before, until n is less than 3 */
    {".site t = Least in \"test\" (1 -> 1) \"t\"\n", "  shape t, device, [r6], [r4:shape]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r6], [r4]\n  kill r4\n"},
    /* in its operand's place only if n is even: the kernel decides */
    {".site t = Even in \"test\" (1 -> 1) \"t\"\n", "  shape t, device, [r6], [r4:shape]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r6], [r4]\n  kill r4\n"},
    /* no workspace if n is 1 */
    {".site t = Work in \"test\" (1 -> 1) \"t\"\n", "  shape t, device, [r6], [r4:shape]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r6], [r4]\n  kill r4\n"},
};
enum { N_TAILS = sizeof tails / sizeof *tails, WORK = N_TAILS - 1, EVEN = N_TAILS - 2 };

/* Tails in which a size decides more than shapes and kernels: every miss is planned. */
static const char *const deciding[][3] = {
    /* an extent becomes a number: three columns, until n is less than 3 */
    {".site s = Corner in \"test\" (1 -> 1) \"s\"\n.site t = First in \"test\" (2 -> 1) \"t\"\n",
     "  shape s, device, [r13], [r4:shape]\n  s.dim s0, r13, 1\n  r.scalar r14, s0, i64\n"
     "  shape t, device, [r6], [r4:shape, r14:value]\n",
     "  kill r2\n  kill r5\n  invoke s, device, [r13], [r4]\n  kill r13\n  invoke t, device, [r6], [r4, r14]\n"
     "  kill r4\n"},
    /* a host kernel that each miss calls */
    {".site s = Same in \"test\" (1 -> 1) \"s\"\n.site t = Slice (4 -> 1) \"t\"\n",
     "  shape s, host, [r13], [r11:shape]\n  invoke s, host, [r13], [r11]\n"
     "  shape t, device, [r6], [r4:shape, r13:value, r12:value, r10:value]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r6], [r4, r13, r12, r10]\n  kill r4\n"},
    /* a branch */
    {".site s = Relu (1 -> 1) \"s\"\n.site t = Exp (1 -> 1) \"t\"\n",
     "  s.dim s0, r3, 0\n  s.const s1, 50\n  s.lt s0, s0, s1\n  branch.ifnot s0, other\n"
     "  shape s, device, [r6], [r4:shape]\n  jump on\nother: shape t, device, [r6], [r4:shape]\non:\n",
     "  kill r2\n  kill r5\n  branch.ifnot s0, run_other\n  invoke s, device, [r6], [r4]\n  jump run_on\n"
     "run_other: invoke t, device, [r6], [r4]\nrun_on: kill r4\n"},
    /* a branch of the shape section alone */
    {".site s = Shape (1 -> 1) \"s\" {start = 1}\n.site t = Exp (1 -> 1) \"t\"\n",
     "  s.dim s0, r3, 0\n  s.const s1, 50\n  s.lt s0, s0, s1\n  branch.ifnot s0, other\n"
     "  shape.like r13, r3, device\n  jump on\nother: shape.like r13, r4, device\n"
     "on: shape s, host, [r14], [r13:shape]\n  invoke s, host, [r14], [r13]\n"
     "  shape t, device, [r6], [r4:shape]\n",
     "  kill r2\n  kill r5\n  kill r13\n  invoke t, device, [r6], [r4]\n  kill r4\n"},
    /* an element becomes a number: one row of three elements for less than five rows */
    {".site s = Size (1 -> 1) \"s\"\n.site t = First in \"test\" (2 -> 1) \"t\"\n",
     "  shape s, host, [r13], [r4:shape]\n  invoke s, host, [r13], [r4]\n  s.item s0, r13\n  s.const s1, 40\n"
     "  s.lt s0, s0, s1\n  r.scalar r14, s0, i64\n  shape t, device, [r6], [r4:shape, r14:value]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r6], [r4, r14]\n  kill r4\n"},
    /* a register that is moved */
    {".site s = Shape (1 -> 1) \"s\"\n.site t = Expand (2 -> 1) \"t\"\n",
     "  shape s, host, [r13], [r4:shape]\n  invoke s, host, [r13], [r4]\n  r.move r14, r13\n"
     "  shape t, device, [r6], [r5:shape, r14:value]\n",
     "  kill r2\n  kill r4\n  invoke t, device, [r6], [r5, r14]\n  kill r5\n"},
    /* a part that another size moves, or that is less than half of its operand */
    {".site t = Split (1 -> 2) \"t\" {num_outputs = 2}\n", "  shape t, device, [r13, r6], [r4:shape]\n",
     "  kill r2\n  kill r5\n  invoke t, device, [r13, r6], [r4]\n  kill r4\n  kill r13\n"},
    /* a bounded result */
    {".site s = Few in \"test\" (1 -> 1) \"s\"\n.site t = Abs (1 -> 1) \"t\"\n",
     "  shape s, device, [r13], [r4:shape]\n  shape t, device, [r6], [r4:shape]\n",
     "  kill r2\n  kill r5\n  invoke s, device, [r13], [r4]\n  kill r13\n  invoke t, device, [r6], [r4]\n  kill r4\n"},
};
enum { N_DECIDING = sizeof deciding / sizeof *deciding };

/* y in the place of its first operand, whatever the size of the second one. */
static const char *const keeping[] = {
    ".site s = Abs (1 -> 1) \"s\"\n.site t = Keep in \"test\" (2 -> 1) \"t\"\n",
    "  shape s, device, [r13], [r27:shape]\n  shape t, device, [r6], [r13:shape, r4:shape]\n",
    "  kill r2\n  kill r5\n  invoke s, device, [r13], [r27]\n  invoke t, device, [r6], [r13, r4]\n  kill r4\n"
    "  kill r13\n"};

#endif
