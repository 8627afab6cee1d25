"""The words that the corpus is made of: names, places, things, and the facts that the model is to know."""

GIRLS = """Anna Mia Lily Emma Rosa Nora Ella Zoe Ruby Clara Lucy Ivy Maya Sara Tina Julia Olga Hana Aisha Mei
Nina Eva Lena Greta Molly Daisy Alice Grace Holly Jane Kate Laura Maria Nelly Polly Sofia Vera Wendy Yara Freya
Ada Bella Carla Dora Edith Fatima Gina Heidi Iris Jill""".split()

BOYS = """Tom Ben Max Leo Sam Finn Oscar Jack Theo Noah Omar Ravi Kenji Luis Peter Paul Otto Hugo Adam Felix
Daniel Eric Fred George Henry Ivan Jonas Karl Liam Marco Nico Oliver Pedro Rick Simon Toby Victor Will Yusuf Zack
Alex Bruno Carlo David Emil Frank Gus Hans Isaac Jamal""".split()

# Animals that can be the hero of a story, with words for how they are.
STORY_ANIMALS = """fox rabbit bear mouse cat dog duck frog owl pig hen horse sheep goat cow turtle squirrel hedgehog
deer wolf lion elephant monkey penguin bee ant snail butterfly tiger donkey bird puppy kitten giraffe whale""".split()

# Others who can be.
STORY_FOLK = ["dragon", "robot", "princess", "prince", "pirate", "wizard", "knight", "king", "queen", "farmer",
              "baker", "fairy", "giant", "sailor", "painter", "ghost", "snowman", "mermaid", "clown"]

FEMALE_FOLK = {"princess", "queen", "fairy", "hen", "cow", "mermaid", "bee"}
MALE_FOLK = {"prince", "king", "knight", "wizard", "snowman"}

THINGS = """ball kite book hat drum boat lamp cup bell key map flute scarf blanket basket bike doll box spoon shoe
ring clock mirror pencil umbrella whistle puppet rope bag teapot pillow coat feather shell stone toy_train balloon
button wooden_horse paper_crown""".split()
THINGS = [thing.replace("_", " ") for thing in THINGS]

FOODS = ["apples", "cookies", "berries", "nuts", "pears", "plums", "carrots", "cherries", "pancakes", "grapes"]
ONE_FOOD = {"apples": "apple", "cookies": "cookie", "berries": "berry", "nuts": "nut", "pears": "pear",
            "plums": "plum", "carrots": "carrot", "cherries": "cherry", "pancakes": "pancake", "grapes": "grape"}

# place, preposition that goes with being there
PLACES = [("forest", "in"), ("garden", "in"), ("park", "in"), ("village", "in"), ("field", "in"), ("valley", "in"),
          ("town", "in"), ("meadow", "in"), ("beach", "on"), ("hill", "on"), ("farm", "on"), ("island", "on"),
          ("lake", "by"), ("river", "by"), ("sea", "by"), ("castle", "in"), ("school", "at"), ("market", "at"),
          ("mountain", "on"), ("zoo", "at"), ("harbour", "at"), ("jungle", "in"), ("cave", "in"), ("desert", "in")]

PLACE_WORDS = ["green", "quiet", "small", "big", "old", "sunny", "windy", "far"]
TRAITS = ["kind", "brave", "clever", "shy", "curious", "cheerful", "gentle", "careful", "lazy", "busy", "quiet",
          "funny", "proud", "patient", "friendly"]
SIZES = ["little", "small", "young", "big", "tiny", "old"]
COLOURS = ["red", "blue", "green", "yellow", "brown", "white", "black", "orange", "purple", "pink", "grey"]

OPPOSITES = """hot cold|big small|tall short|fast slow|happy sad|day night|up down|in out|open closed|light dark
young old|new old|hard soft|wet dry|full empty|rich poor|strong weak|loud quiet|clean dirty|heavy light
early late|first last|good bad|right wrong|left right|black white|high low|near far|thick thin|wide narrow
deep shallow|sweet sour|smooth rough|sharp blunt|true false|begin end|start stop|push pull|buy sell|give take
come go|win lose|love hate|laugh cry|question answer|summer winter|north south|east west|friend enemy
always never|before after|above below|inside outside|front back|top bottom|asleep awake|alive dead|brave afraid
easy difficult|cheap expensive|long short|many few|more less|same different|tight loose|safe dangerous
beautiful ugly|kind cruel|polite rude|remember forget|find lose|arrive leave|break mend|lend borrow|teach learn
sink float|hello goodbye|yes no|man woman|boy girl|king queen|heaven hell|peace war|success failure|hope despair
bright dim|calm stormy|careful careless|clever stupid|wild tame|wise foolish|raw cooked|present absent
increase decrease|arrival departure|entrance exit|victory defeat|floor ceiling|forward backward|all none
everything nothing|everyone nobody|day night|lazy busy|guilty innocent|public private|rise fall|lock unlock"""

# animal, its young, male, female, its sound (verb), its home
ANIMALS = """dog|puppy|dog|bitch|barks|a kennel
cat|kitten|cat|cat|meows|a house
cow|calf|bull|cow|moos|a barn
horse|foal|stallion|mare|neighs|a stable
sheep|lamb|ram|ewe|bleats|a pen
pig|piglet|boar|sow|oinks|a sty
goat|kid|billy|nanny|bleats|a shed
chicken|chick|rooster|hen|clucks|a coop
duck|duckling|drake|duck|quacks|a pond
goose|gosling|gander|goose|honks|a pond
deer|fawn|stag|doe|bellows|the forest
lion|cub|lion|lioness|roars|the savanna
tiger|cub|tiger|tigress|roars|the jungle
bear|cub|boar|sow|growls|a den
fox|cub|dog fox|vixen|barks|a den
wolf|pup|dog wolf|she-wolf|howls|a den
rabbit|kit|buck|doe|squeaks|a burrow
kangaroo|joey|boomer|flyer|grunts|the bush
elephant|calf|bull|cow|trumpets|the savanna
whale|calf|bull|cow|sings|the sea
seal|pup|bull|cow|barks|the coast
swan|cygnet|cob|pen|hisses|a lake
owl|owlet|owl|owl|hoots|a tree
eagle|eaglet|eagle|eagle|screams|a nest
frog|tadpole|frog|frog|croaks|a pond
bee|larva|drone|queen|buzzes|a hive
butterfly|caterpillar|butterfly|butterfly||a meadow
donkey|foal|jack|jenny|brays|a stable
hare|leveret|buck|doe||a field
turkey|poult|tom|hen|gobbles|a farm
pigeon|squab|cock|hen|coos|a loft
monkey|infant|monkey|monkey|chatters|the trees
mouse|pup|buck|doe|squeaks|a hole
snake|snakelet|snake|snake|hisses|the grass
hedgehog|hoglet|boar|sow|snuffles|a hedge
giraffe|calf|bull|cow|hums|the savanna
zebra|foal|stallion|mare|brays|the savanna
camel|calf|bull|cow|grunts|the desert
penguin|chick|penguin|penguin|honks|the ice
fish|fry|fish|fish||the water
spider|spiderling|spider|spider||a web
ant|larva|drone|queen||an anthill"""

LEGS = {"spider": 8, "ant": 6, "bee": 6, "butterfly": 6, "fish": 0, "snake": 0, "chicken": 2, "duck": 2, "goose": 2,
        "swan": 2, "owl": 2, "eagle": 2, "turkey": 2, "pigeon": 2, "penguin": 2, "kangaroo": 2, "dog": 4, "cat": 4,
        "cow": 4, "horse": 4, "sheep": 4, "pig": 4, "goat": 4, "lion": 4, "tiger": 4, "bear": 4, "frog": 4,
        "elephant": 4, "mouse": 4, "donkey": 4, "zebra": 4, "giraffe": 4, "camel": 4, "wolf": 4, "fox": 4}

COLOUR_OF = """grass green|the sky blue|snow white|blood red|a lemon yellow|a banana yellow|coal black|the sun yellow
milk white|an orange orange|a carrot orange|a tomato red|a strawberry red|a cherry red|chocolate brown|a frog green
a flamingo pink|an elephant grey|a polar bear white|a crow black|a leaf green|the sea blue|a pea green|cheese yellow
a mouse grey|salt white|sugar white|a fire engine red|a cucumber green|a pumpkin orange|coffee brown|a swan white
a rose red|wood brown|a plum purple|gold yellow|silver grey|a tiger orange|rice white|honey yellow|the night black
a pig pink|a fox orange|a blueberry blue|broccoli green|an aubergine purple|a cloud white|a bear brown|soil brown"""

MIXES = """red and yellow orange|blue and yellow green|red and blue purple|red and white pink|black and white grey
red and green brown"""

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
SEASONS = {"spring": "March, April and May", "summer": "June, July and August",
           "autumn": "September, October and November", "winter": "December, January and February"}
ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
NUMBER_WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty""".split()
SHAPES = {"triangle": 3, "square": 4, "rectangle": 4, "pentagon": 5, "hexagon": 6, "octagon": 8}

CAPITALS = """Afghanistan:Kabul|Albania:Tirana|Algeria:Algiers|Andorra:Andorra la Vella|Angola:Luanda
Argentina:Buenos Aires|Armenia:Yerevan|Australia:Canberra|Austria:Vienna|Azerbaijan:Baku|Bahrain:Manama
Bangladesh:Dhaka|Barbados:Bridgetown|Belarus:Minsk|Belgium:Brussels|Belize:Belmopan|Benin:Porto-Novo
Bhutan:Thimphu|Bolivia:Sucre|Bosnia:Sarajevo|Botswana:Gaborone|Brazil:Brasilia|Brunei:Bandar Seri Begawan
Bulgaria:Sofia|Burundi:Gitega|Cambodia:Phnom Penh|Cameroon:Yaounde|Canada:Ottawa|Chad:N'Djamena|Chile:Santiago
China:Beijing|Colombia:Bogota|Costa Rica:San Jose|Croatia:Zagreb|Cuba:Havana|Cyprus:Nicosia
the Czech Republic:Prague|Denmark:Copenhagen|Ecuador:Quito|Egypt:Cairo|El Salvador:San Salvador|Eritrea:Asmara
Estonia:Tallinn|Ethiopia:Addis Ababa|Fiji:Suva|Finland:Helsinki|France:Paris|Gabon:Libreville|Georgia:Tbilisi
Germany:Berlin|Ghana:Accra|Greece:Athens|Guatemala:Guatemala City|Guinea:Conakry|Guyana:Georgetown
Haiti:Port-au-Prince|Honduras:Tegucigalpa|Hungary:Budapest|Iceland:Reykjavik|India:New Delhi|Indonesia:Jakarta
Iran:Tehran|Iraq:Baghdad|Ireland:Dublin|Italy:Rome|Jamaica:Kingston|Japan:Tokyo|Jordan:Amman|Kazakhstan:Astana
Kenya:Nairobi|Kuwait:Kuwait City|Kyrgyzstan:Bishkek|Laos:Vientiane|Latvia:Riga|Lebanon:Beirut|Lesotho:Maseru
Liberia:Monrovia|Libya:Tripoli|Liechtenstein:Vaduz|Lithuania:Vilnius|Luxembourg:Luxembourg
Madagascar:Antananarivo|Malawi:Lilongwe|Malaysia:Kuala Lumpur|Mali:Bamako|Malta:Valletta|Mexico:Mexico City
Moldova:Chisinau|Monaco:Monaco|Mongolia:Ulaanbaatar|Montenegro:Podgorica|Morocco:Rabat|Mozambique:Maputo
Namibia:Windhoek|Nepal:Kathmandu|the Netherlands:Amsterdam|New Zealand:Wellington|Nicaragua:Managua|Niger:Niamey
Nigeria:Abuja|North Korea:Pyongyang|Norway:Oslo|Oman:Muscat|Pakistan:Islamabad|Panama:Panama City
Paraguay:Asuncion|Peru:Lima|the Philippines:Manila|Poland:Warsaw|Portugal:Lisbon|Qatar:Doha|Romania:Bucharest
Russia:Moscow|Rwanda:Kigali|Saudi Arabia:Riyadh|Senegal:Dakar|Serbia:Belgrade|Singapore:Singapore
Slovakia:Bratislava|Slovenia:Ljubljana|Somalia:Mogadishu|South Korea:Seoul|Spain:Madrid|Sudan:Khartoum
Suriname:Paramaribo|Sweden:Stockholm|Switzerland:Bern|Syria:Damascus|Taiwan:Taipei|Tajikistan:Dushanbe
Tanzania:Dodoma|Thailand:Bangkok|Togo:Lome|Tunisia:Tunis|Turkey:Ankara|Uganda:Kampala|Ukraine:Kyiv
the United Kingdom:London|England:London|Scotland:Edinburgh|Wales:Cardiff|the United States:Washington
Uruguay:Montevideo|Uzbekistan:Tashkent|Venezuela:Caracas|Vietnam:Hanoi|Yemen:Sanaa|Zambia:Lusaka|Zimbabwe:Harare"""

# Words to spell, sort and measure; short and common.
WORDS = """apple bird bread chair cloud dance dream earth fish flower friend garden grass green hand happy heart
house island juice kite lamp leaf lemon light lion milk moon mother mouse music night nose ocean orange paper
peach plant queen rain ring river road rose sand school seed ship shoe sky smile snow song spoon star stone
storm story street sugar summer sun table tiger toad train tree umbrella village wall water whale wheel wind
window winter wolf wood yellow zebra banana basket bottle bridge butter button candle carrot castle cheese cherry
circle clock coffee corner cotton cousin dinner doctor dragon farmer father finger forest guitar hammer honey
horse insect jacket jungle kitchen ladder letter market mirror monkey number onion parrot pencil pepper picture
pillow pocket potato rabbit ribbon rocket salad sister spider spring square teacher tomato turtle valley violin
wagon winner wizard yogurt actor bee boat cake cat cow cup dog duck egg fox frog goat hat hen ice jam key king
leg map nut owl pear pig pond rat sea sock tent toy van yard zoo bell book coin door drum farm gate gold hill
lake nest park rope salt sheep shop soup swan tail tooth town wave wing""".split()


def pairs(table: str) -> list[tuple[str, str]]:
    """Entries of a table whose last word is the answer: 'the sky blue' is ('the sky', 'blue')."""
    entries = [entry for line in table.splitlines() for entry in line.split("|")]
    return list(dict.fromkeys((entry.rpartition(" ")[0], entry.rpartition(" ")[2]) for entry in entries))


def capitals() -> list[tuple[str, str]]:
    """Countries and their capitals."""
    return [tuple(e.split(":")) for line in CAPITALS.splitlines() for e in line.split("|")]


def animals() -> list[tuple[str, ...]]:
    """Rows of (animal, young, male, female, sound, home)."""
    return [tuple(line.split("|")) for line in ANIMALS.splitlines()]


def a(noun: str) -> str:
    """The noun with its article."""
    return ("an " if noun[0].lower() in "aeiou" and not noun.startswith("unicorn") else "a ") + noun
