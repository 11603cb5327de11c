// Values that nobody has written: where they are reported, and where not.
#include "memory_fixture.h"

namespace hipemu {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class Uninitialised : public testing::Test {
 protected:
  Uninitialised() : f("gfx1100", CheckOptions::all()) {}
  void SetUp() override {
    if (!check_options().shadow()) GTEST_SKIP() << "HIPEMU_CHECK is off";
    memory = f.fresh<uint32_t>(256);
    f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
    f.set_row(1, [](int lane) { return 4 * lane; });
  }
  MemoryFixture f;
  uint32_t* memory = nullptr;
};

TEST_F(Uninitialised, LoadingAndMovingIsNoFault) {
  EXPECT_EQ(f.fault("global_load_b32 v0, v1, s[2:3]"), "");
  EXPECT_EQ(f.wave().undefined_rows, 1);
  EXPECT_EQ(f.wave().undefined[0], 0xffffffffull);
  EXPECT_EQ(f.fault("v_mov_b32_e32 v5, v0"), "");
  EXPECT_EQ(f.wave().undefined_rows, 2);
  EXPECT_EQ(f.at(5, 3), memory_poison);
  // Overwritten: gone.
  EXPECT_EQ(f.fault("v_mov_b32_e32 v0, 0"), "");
  EXPECT_EQ(f.fault("v_mov_b32_e32 v5, v1"), "");
  EXPECT_EQ(f.wave().undefined_rows, 0);
}

TEST_F(Uninitialised, ArithmeticIs) {
  f.run("global_load_b32 v0, v1, s[2:3]");
  const std::string message = f.fault("v_add_f32_e32 v2, v0, v1");
  EXPECT_TRUE(has(message, "use of v0") && has(message, "nobody has written it") && has(message, "hipMalloc"))
      << message;
  EXPECT_EQ(f.last.kind, Fault::Kind::uninitialised);
  EXPECT_EQ(f.last.lane, 0);
  f.run("v_mov_b32_e32 v7, v0");
  EXPECT_TRUE(has(f.fault("v_cmp_lt_f32_e32 vcc_lo, v7, v1"), "use of v7"));
  EXPECT_TRUE(has(f.fault("v_fmac_f32_e32 v7, v1, v1"), "use of v7"));
  EXPECT_TRUE(has(f.fault("v_readfirstlane_b32 s9, v7"), "use of v7"));
}

TEST_F(Uninitialised, OnlyActiveLanesCount) {
  std::fill_n(memory, 16, 0u);
  address_space().mark_written(memory, 64);
  f.run("global_load_b32 v0, v1, s[2:3]");
  EXPECT_EQ(f.wave().undefined[0], 0xffff0000ull);
  f.set_exec(0xffff);
  EXPECT_EQ(f.fault("v_add_f32_e32 v2, v0, v1"), "");
  f.set_exec(0x1ffff);
  EXPECT_NE(f.fault("v_add_f32_e32 v2, v0, v1"), "");
  EXPECT_EQ(f.last.lane, 16);
}

TEST_F(Uninitialised, AddressIs) {
  f.run("global_load_b32 v0, v1, s[2:3]");
  EXPECT_TRUE(has(f.fault("global_load_b32 v4, v0, s[2:3]"), "address in v0"));
  EXPECT_TRUE(has(f.fault("global_store_b32 v0, v1, s[2:3]"), "address in v0"));
  EXPECT_TRUE(has(f.fault("ds_load_b32 v4, v0"), "address in v0"));
  EXPECT_TRUE(has(f.fault("global_atomic_add_u32 v1, v0, s[2:3]"), "v0"));
}

TEST_F(Uninitialised, StoredItStaysUnwritten) {
  uint32_t* other = f.fresh<uint32_t>(64);
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(other));
  f.run("global_load_b32 v0, v1, s[2:3]");
  EXPECT_EQ(f.fault("global_store_b32 v1, v0, s[4:5]"), "");
  f.run("v_mov_b32_e32 v0, 0");
  f.run("global_load_b32 v6, v1, s[4:5]");
  EXPECT_NE(f.fault("v_add_nc_u32_e32 v6, v6, v6"), "");
  f.run("global_store_b32 v1, v0, s[4:5]");
  f.run("global_load_b32 v6, v1, s[4:5]");
  EXPECT_EQ(f.fault("v_add_nc_u32_e32 v6, v6, v6"), "");
  EXPECT_EQ(f.wave().undefined_rows, 0);
}

TEST_F(Uninitialised, PartsOfADword) {
  // A dword of which one byte is written counts as defined; a byte does not help its neighbour.
  auto* bytes = reinterpret_cast<uint8_t*>(memory);
  for (int i = 0; i < 32; ++i) {
    bytes[4 * i + 1] = 5;
    address_space().mark_written(bytes + 4 * i + 1, 1);
  }
  f.run("global_load_b32 v0, v1, s[2:3]");
  EXPECT_EQ(f.fault("v_add_nc_u32_e32 v0, v0, v0"), "");
  f.run("global_load_u8 v0, v1, s[2:3] offset:1");
  EXPECT_EQ(f.fault("v_add_nc_u32_e32 v0, v0, v0"), "");
  f.run("global_load_u8 v0, v1, s[2:3] offset:2");
  EXPECT_NE(f.fault("v_add_nc_u32_e32 v0, v0, v0"), "");
  f.run("global_load_u16 v0, v1, s[2:3]");
  EXPECT_EQ(f.fault("v_add_nc_u32_e32 v0, v0, v0"), "");
}

TEST_F(Uninitialised, WideLoadsMarkEachRegister) {
  address_space().mark_written(memory, 8);
  f.set_exec(1);
  f.run("global_load_b128 v[8:11], v1, s[2:3]");
  EXPECT_EQ(f.wave().undefined[8], 0u);
  EXPECT_EQ(f.wave().undefined[9], 0u);
  EXPECT_EQ(f.wave().undefined[10], 1u);
  EXPECT_EQ(f.wave().undefined[11], 1u);
  EXPECT_EQ(f.fault("v_add_f64 v[4:5], v[8:9], v[8:9]"), "");
  EXPECT_NE(f.fault("v_add_f64 v[4:5], v[8:9], v[10:11]"), "");
}

TEST_F(Uninitialised, SelectsCarryWhatTheyChoose) {
  f.run("global_load_b32 v0, v1, s[2:3]");
  f.wave().set_mask(scalar::vcc, 0xf0);
  f.run("v_cndmask_b32_e32 v6, v1, v0, vcc_lo");
  EXPECT_EQ(f.wave().undefined[6], 0xf0u);
  f.set_exec(0x0f);
  EXPECT_EQ(f.fault("v_add_nc_u32_e32 v6, v6, v6"), "");
}

// Registers whose numbers M0 moves.
TEST_F(Uninitialised, RegistersNamedByANumber) {
  f.run("global_load_b32 v10, v1, s[2:3]");
  f.wave().scalars[scalar::m0] = 4;
  f.run("v_movrels_b32_e32 v5, v10");  // v14
  EXPECT_EQ(f.wave().undefined[5], 0u);
  f.run("v_movrels_b32_e32 v5, v6");  // v10
  EXPECT_EQ(f.wave().undefined[5], 0xffffffffull);
  f.run("v_movreld_b32_e32 v20, v10");  // v24
  EXPECT_EQ(f.wave().undefined[20], 0u);
  EXPECT_EQ(f.wave().undefined[24], 0xffffffffull);
  f.wave().scalars[scalar::m0] = 3 << 16 | 5;
  f.run("v_swaprel_b32 v7, v5");  // v10 and v10
  EXPECT_EQ(f.wave().undefined[7], 0u);
  f.wave().scalars[scalar::m0] = 1000;
  EXPECT_NE(f.fault("v_movrels_b32_e32 v5, v10"), "");
}

TEST_F(Uninitialised, LanePermutations) {
  f.set_exec(1);
  f.run("global_load_b32 v0, v1, s[2:3]");
  f.set_exec(~0ull);
  f.set_row(4, [](int lane) { return 4 * (lane ^ 1); });
  f.run("ds_bpermute_b32 v6, v4, v0");
  EXPECT_EQ(f.wave().undefined[6], 2u);
  f.run("ds_swizzle_b32 v6, v0 offset:swizzle(SWAP,4)");
  EXPECT_EQ(f.wave().undefined[6], 16u);
  f.run("v_mov_b32_dpp v6, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(f.wave().undefined[6], 2u);
}

TEST_F(Uninitialised, Lds) {
  f.run("ds_load_b32 v0, v1");
  const std::string message = f.fault("v_add_nc_u32_e32 v0, v0, v0");
  EXPECT_TRUE(has(message, "LDS address 0x0")) << message;
  f.run("ds_store_b32 v1, v1");
  f.run("ds_load_b32 v0, v1");
  EXPECT_EQ(f.fault("v_add_nc_u32_e32 v0, v0, v0"), "");
  EXPECT_TRUE(has(f.fault("ds_add_u32 v1, v1 offset:1024"), "which nobody has written"));
  EXPECT_EQ(f.fault("ds_add_u32 v1, v1"), "");
}

TEST_F(Uninitialised, AtomicsAndScalarLoads) {
  EXPECT_TRUE(has(f.fault("global_atomic_add_u32 v1, v1, s[2:3]"), "atomic on"));
  EXPECT_EQ(f.fault("global_atomic_swap_b32 v1, v1, s[2:3]"), "");
  EXPECT_EQ(f.fault("global_atomic_add_u32 v1, v1, s[2:3]"), "");
  uint32_t* other = f.fresh<uint32_t>(16);
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(other));
  EXPECT_TRUE(has(f.fault("s_load_b64 s[8:9], s[4:5], 0x0"), "nobody has written"));
  address_space().mark_written(other + 1, 4);
  EXPECT_EQ(f.fault("s_load_b64 s[8:9], s[4:5], 0x0"), "");
  EXPECT_NE(f.fault("s_load_b32 s8, s[4:5], 0x0"), "");
}

TEST_F(Uninitialised, MatrixOperands) {
  f.run("global_load_b32 v20, v1, s[2:3]");
  EXPECT_TRUE(has(f.fault("v_wmma_f32_16x16x16_f16 v[40:47], v[16:23], v[24:31], v[40:47]"), "use of v20"));
}

TEST_F(Uninitialised, DualIssueReadsBeforeItWrites) {
  f.run("global_load_b32 v0, v1, s[2:3]");
  EXPECT_EQ(f.fault("v_dual_add_f32 v4, v1, v1 :: v_dual_mov_b32 v1, v0"), "");
  EXPECT_NE(f.fault("v_dual_add_f32 v4, v1, v1 :: v_dual_mov_b32 v3, 0"), "");
}

}  // namespace
}  // namespace hipemu
