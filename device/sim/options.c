/* The options in a simulated accelerator's name: sim?seed=7&delay_us=50, sim?lacks=Conv+TopK. Their meaning:
 * sim_options in state.h. */
#include "device/loadable.h"
#include "device/sim/state.h"

reed_status sim_options_read(const char *text, sim_options *out_options, reed_diagnosis *diagnosis) {
  static const loadable_option numbers[] = {
#define KEY(name) {#name, offsetof(sim_options, name)}
      KEY(fail_allocation), KEY(fail_copy), KEY(fail_launch), KEY(seed), KEY(delay_us), KEY(late), KEY(poison),
#undef KEY
  };
  static const loadable_options known = {"sim", numbers, sizeof numbers / sizeof *numbers, "", ""};
  *out_options = (sim_options){.text = text};
  return loadable_options_read(&known, text, out_options, diagnosis);
}
