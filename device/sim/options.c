/* The options in a simulated accelerator's name: sim?seed=7&delay_us=50, sim?lacks=Conv+TopK. Their meaning:
 * sim_options in state.h. */
#include "device/sim/state.h"
#include "ops/device_options.h"

reed_status sim_options_read(const char *text, sim_options *out_options, reed_diagnosis *diagnosis) {
  static const device_option_place places[] = {
#define SIM_OPTION(key, most) {#key, offsetof(sim_options, key)},
#include "ops/device_options.def"
  };
  *out_options = (sim_options){.text = text};
  return device_options_read("sim", text, places, sizeof places / sizeof *places, out_options, diagnosis);
}
