//! How many warps, blocks and rows a kernel of blocks has.

/// How a GPU is used, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GpuPlan {
    /// Lanes of a warp: a power of two.
    pub lanes: i64,
    /// Most bytes that a thread loads or stores at once: a power of two.
    pub widest: usize,
    /// Whether memory consists of words: a byte or a half is stored by changing its bits of one.
    pub words: bool,
    /// Whether a warp multiplies matrices of halves, for which it has 32 lanes and loads of 16 bytes.
    pub multiplies: bool,
    /// Whether a warp of 32 lanes multiplies matrices of 16 by 16 f16 numbers that it loads from shared memory, or from what is
    /// only read, and stores to shared memory as a whole: no lane knows which elements it has (cooperative matrices).
    pub cooperative: bool,
    /// Whether weights of 16 bits and the tokens of a step are rounded to what a warp multiplies, bf16 or f16.
    pub halves: bool,
    /// Whether weights in block formats are too, where [`GpuPlan::groups`] has the registers for it, and by cooperative
    /// matrices.
    pub halves_of_blocks: bool,
    /// Whether four warps multiply rows of theirs with columns in shared memory together.
    pub groups: bool,
    /// Warps of a block at least: a power of two, at most 32.
    pub warps: i64,
    /// Warps of a block at most, so that blocks of the next kernel fit beside it.
    pub most_warps: i64,
    /// Warps at most of a block that multiplies matrices, whose lanes keep many elements in registers.
    pub product_warps: i64,
    /// Warps that the whole GPU should have: a kernel of few blocks has more in each.
    pub all_warps: i64,
    /// Sums that a thread keeps side by side, so that as many loads are in flight.
    pub rows: i64,
    /// Blocks that a kernel should have at least, so that every multiprocessor has some.
    pub blocks: i64,
    /// Multiprocessors of the GPU.
    pub processors: i64,
    /// Bytes of registers of a multiprocessor.
    pub registers: usize,
    /// Threads that the registers of a multiprocessor are divided among at most. With more of them a thread has fewer
    /// registers, and its loads wait for each other.
    pub resident: i64,
    /// Whether the kernels of a stage are one launch, so that launches follow each other in a chain.
    pub join: bool,
    /// Whether a launch begins before those before it are over, and waits for them itself.
    pub overlap: bool,
    /// Bytes of registers for weights that a thread loads before anything else; fewer in large blocks.
    pub early: usize,
    /// Rows of a matrix that a block takes at most.
    pub block_rows: i64,
    /// Tokens at most of a block that multiplies rows of weights with several of them.
    pub tile_tokens: i64,
    /// Rows at most of such a block.
    pub tile_rows: i64,
    /// Elements that a part of a sum over weights has at least; 0 where none is split.
    pub split_k: i64,
    /// Bytes of shared memory that a block may have; what exceeds it lies in memory.
    pub shared: usize,
    /// Bytes of shared memory that each of two blocks of a multiprocessor may have.
    pub shared_of_two: usize,
    /// Buffers of a kernel at most.
    pub slots: usize,
    /// Bytes at whose multiples values between kernels lie: a power of two.
    pub alignment: usize,
}

impl Default for GpuPlan {
    /// For an H200.
    fn default() -> GpuPlan {
        GpuPlan {
            lanes: 32,
            widest: 16,
            words: false,
            multiplies: true,
            cooperative: false,
            halves: true,
            halves_of_blocks: true,
            groups: false,
            warps: 4,
            most_warps: 16,
            product_warps: 8,
            // Three that follow from the number of multiprocessors, below.
            all_warps: 0,
            rows: 4,
            blocks: 0,
            processors: 0,
            registers: 256 << 10,
            resident: 512,
            join: true,
            overlap: true,
            early: 256,
            block_rows: 32,
            tile_tokens: 64,
            tile_rows: 128,
            split_k: 0,
            shared: 200 << 10,
            shared_of_two: 113 << 10,
            slots: usize::MAX,
            alignment: 64,
        }
        .with_processors(132)
    }
}

impl GpuPlan {
    /// The same for so many multiprocessors, on each two blocks or more, and 16 warps.
    #[must_use]
    pub fn with_processors(self, processors: i64) -> GpuPlan {
        GpuPlan { processors, blocks: 2 * processors, all_warps: 16 * processors, ..self }
    }

    /// For a GPU of any vendor, of which no more is known than how many lanes reach each other's registers and how many threads
    /// a block may have: memory of words, no products of matrices, no launches that overlap, memory of a block and buffers of a
    /// kernel as WebGPU's adapters commonly have them.
    pub fn portable(lanes: i64, threads: i64) -> GpuPlan {
        let most = (threads / lanes).clamp(1, 32);
        GpuPlan {
            lanes,
            // By Vulkan on an H200 (bench/JOURNAL.md).
            warps: (most / 2).clamp(1, 8),
            most_warps: most,
            product_warps: most.min(8),
            words: true,
            multiplies: false,
            overlap: false,
            shared: 32 << 10,
            shared_of_two: usize::MAX,
            slots: 28,
            alignment: 256,
            ..GpuPlan::default()
        }
    }
}

/// Bytes of the memory of a block that a tile of 128 rows and 128 tokens takes with what its warps store their sums through, and
/// one of 64 and 64.
const LARGE_TILE: usize = 46 << 10;
const SMALL_TILE: usize = 28 << 10;

impl GpuPlan {
    /// For a GPU of any vendor whose warps multiply matrices as a whole, with 48 KiB for a block.
    pub fn of_matrices() -> GpuPlan {
        GpuPlan { shared: 48 << 10, ..GpuPlan::portable(32, 256) }.with_cooperative_matrices()
    }

    /// The same for a GPU whose warps multiply matrices as a whole, with as large tiles as the memory of a block has room for; as
    /// it is where it has none, or too few threads.
    #[must_use]
    pub fn with_cooperative_matrices(self) -> GpuPlan {
        let (tile_tokens, tile_rows) = match self.shared {
            LARGE_TILE.. => (128, 128),
            SMALL_TILE.. => (64, 64),
            _ => return self,
        };
        if self.lanes != 32 || self.most_warps < 8 {
            return self;
        }
        GpuPlan { cooperative: true, product_warps: tile_rows / 16, tile_tokens, tile_rows, split_k: 2048, ..self }
    }
}

/// Elements of the largest item of a block that are worth a thread.
const WORTH: i64 = 16;

impl GpuPlan {
    /// The plan with as many warps in a block as `tasks` blocks need, if the largest item of a block has `elements`.
    pub fn for_blocks(&self, tasks: i64, elements: i64) -> GpuPlan {
        let worth = elements / (WORTH * self.lanes);
        let wanted = self.able(self.all_warps / tasks.max(1)).min(self.able(worth));
        GpuPlan { warps: self.able(self.warps).max(wanted), ..self.clone() }
    }

    /// As many of these warps as a block may have: a power of two.
    pub(crate) fn able(&self, warps: i64) -> i64 {
        let most = self.most_warps.clamp(1, 32);
        (warps.clamp(1, most) as u64 + 1).next_power_of_two() as i64 / 2
    }

    /// Blocks that a multiprocessor has registers for: all blocks of a kernel should run at once, as those of a second
    /// round would start when the first are over.
    pub(crate) fn blocks_beside(&self, blocks: i64, threads: usize) -> i64 {
        let all = (blocks + self.processors - 1) / self.processors.max(1);
        all.min(self.resident / threads.max(1) as i64).max(1)
    }

    /// Bytes of registers for loads that go first: of weights at most half of what a thread has, and of the rest half
    /// as much.
    pub(crate) fn first_bytes(&self) -> (usize, usize) {
        let weights = self.early.min(self.registers / 2 / self.threads() as usize);
        (weights, weights / 2)
    }

    /// Whether programs of these options multiply matrices as a whole.
    pub(crate) fn multiplies_whole(&self) -> bool {
        self.cooperative && self.halves
    }

    /// Threads of a block.
    pub fn threads(&self) -> i64 {
        self.warps * self.lanes
    }
}
